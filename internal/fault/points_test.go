package fault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declared reads the constants of the files points_*.go: name → point.
func declared(t *testing.T) map[string]Point {
	t.Helper()
	files, err := filepath.Glob("points_*.go")
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]Point{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree := parse(t, file)
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			points[spec.Names[0].Name] = Point(text)
			return true
		})
	}
	return points
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// passed collects what the module's code says about fault points: the constants
// it names, and the calls of At whose argument is neither a constant nor a
// parameter of type fault.Point (through which a helper passes its caller's).
func passed(t *testing.T) (named map[string]int, odd []string) {
	t.Helper()
	named = map[string]int{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "fault" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file := parse(t, path)
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return strings.HasSuffix(i.Path.Value, `/internal/fault"`) }) {
			return nil // what is called fault there is something else
		}
		for _, decl := range file.Decls {
			odd = append(odd, inspect(path, decl, named)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return named, odd
}

// inspect looks at one declaration: it counts fault.X in named and returns the
// odd calls of fault.At.
func inspect(path string, decl ast.Decl, named map[string]int) (odd []string) {
	parameters := map[string]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if _, ok := ofFault(n.Type); ok {
				for _, name := range n.Names {
					parameters[name.Name] = true
				}
			}
		case *ast.SelectorExpr:
			if name, ok := ofFault(n); ok {
				named[name]++
			}
		case *ast.CallExpr:
			if name, ok := ofFault(n.Fun); !ok || name != "At" {
				return true
			}
			if _, constant := ofFault(n.Args[0]); constant {
				return true
			}
			if id, ok := n.Args[0].(*ast.Ident); !ok || !parameters[id.Name] {
				odd = append(odd, path)
			}
		}
		return true
	})
	return odd
}

// ofFault returns X of an expression fault.X.
func ofFault(e ast.Expr) (name string, ok bool) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return sel.Sel.Name, ok && pkg.Name == "fault"
}

func TestPointsListsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(maps.Values(declared(t)))
	got := slices.Sorted(slices.Values(Points()))
	if !slices.Equal(got, want) {
		t.Errorf("Points() is %q, declared are %q", got, want)
	}
	if len(slices.Compact(got)) != len(want) {
		t.Error("two points have one name")
	}
}

func TestEveryDeclaredPointIsPassedAndEveryPassedOneIsDeclared(t *testing.T) {
	t.Parallel()
	points := declared(t)
	named, odd := passed(t)
	for _, path := range odd {
		t.Errorf("%s: fault.At is called with something that is no declared point", path)
	}
	for name := range points {
		if named[name] == 0 {
			t.Errorf("fault.%s is declared and no step passes it", name)
		}
	}
	for name := range named {
		if _, ok := points[name]; !ok && !slices.Contains([]string{"At", "Point", "Points", "Parse", "Enabled"}, name) {
			t.Errorf("fault.%s is passed and not declared in a points_*.go file", name)
		}
	}
}
