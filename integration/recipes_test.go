package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipes are the fault recipes that must be tests named TestBnn_…, with the area
// that each belongs to.
var recipes = map[string]string{
	"B26": "redis", "B28": "redis", "B29": "redis", "B31": "redis", "B34": "redis", "B35": "redis", "B37": "redis",
	"B38": "core", "B40": "core", "B41": "core", "B43": "core", "B44": "core",
	"B46": "deadletter", "B47": "deadletter",
	"B49": "process", "B50": "process",
	"B52": "cli", "B53": "cli",
}

func TestEveryRecipeIsATest(t *testing.T) {
	t.Parallel()
	found := recipeTests(t)
	for _, recipe := range slices.Sorted(maps.Keys(recipes)) {
		if len(found[recipe]) == 0 {
			t.Errorf("no test of package %s is named Test%s_…", recipes[recipe], recipe)
		}
		for _, test := range found[recipe] {
			t.Logf("%s: %s", recipe, test)
		}
	}
}

// recipeTests maps Bnn to the tests with that name, build tags or not.
func recipeTests(t *testing.T) map[string][]string {
	t.Helper()
	name := regexp.MustCompile(`^Test(B\d\d)_\w+$`)
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != ".." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			if m := name.FindStringSubmatch(f.Name.Name); m != nil && len(f.Body.List) > 0 {
				found[m[1]] = append(found[m[1]], f.Name.Name+" in "+strings.TrimPrefix(file, "../"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
