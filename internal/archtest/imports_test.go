// Package archtest proves the shape of the module: which package may import
// which, and that the core names no broker.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/goconsumer/consumer"
	root   = "../.."
)

// layers is the import order, lowest first: a package may import packages of its
// own layer's directory and of layers before it, never of one behind it.
var layers = []string{"internal", "core", "deadletter", "transport", "processes", "cmd/consumer", "integration"}

func TestImportsPointDownTheLayers(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	eachGoFile(t, func(file string) {
		from := layerOf(path.Dir(file))
		if from < 0 || strings.HasSuffix(file, "_test.go") {
			return
		}
		seen[layers[from]] = true
		for _, imported := range importsOf(t, file) {
			pkg, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			to := layerOf(pkg)
			if to < 0 {
				t.Errorf("%s imports %s, which is in no layer: add its directory to layers", file, imported)
			} else if to > from {
				t.Errorf("%s imports %s: %s must not know %s", file, imported, layers[from], layers[to])
			}
		}
	})
	for _, layer := range layers[:2] {
		if !seen[layer] {
			t.Errorf("no Go file of layer %s was looked at", layer)
		}
	}
}

func TestNothingImportsIntegration(t *testing.T) {
	t.Parallel()
	eachGoFile(t, func(file string) {
		if strings.HasPrefix(file, "integration/") {
			return
		}
		for _, imported := range importsOf(t, file) {
			if strings.HasPrefix(imported+"/", module+"/integration/") {
				t.Errorf("%s imports %s", file, imported)
			}
		}
	})
}

func TestTransportsDoNotKnowEachOther(t *testing.T) {
	t.Parallel()
	eachGoFile(t, func(file string) {
		own, ok := driverOf(file)
		if !ok {
			return
		}
		for _, imported := range importsOf(t, file) {
			other, ok := driverOf(strings.TrimPrefix(imported, module+"/") + "/")
			if ok && other != own {
				t.Errorf("%s imports %s: drivers share only core and deadletter", file, imported)
			}
		}
	})
}

func TestCoreNamesNoBroker(t *testing.T) {
	t.Parallel()
	looked := 0
	eachGoFile(t, func(file string) {
		if path.Dir(file) != "core" || strings.HasSuffix(file, "_test.go") {
			return
		}
		looked++
		src, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(strings.ToLower(string(src)), "\n") {
			for _, broker := range []string{"redis", "valkey", "rabbit", "amqp", "kafka", "nats.", "sqs"} {
				if strings.Contains(line, broker) {
					t.Errorf("%s:%d names %s", file, n+1, broker)
				}
			}
		}
	})
	if looked == 0 {
		t.Error("no file of core was looked at")
	}
}

// eachGoFile calls f with the slash path of every Go file, relative to the module.
func eachGoFile(t *testing.T, f func(file string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(rel, ".go"):
			f(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

func layerOf(dir string) int {
	for i, layer := range layers {
		if dir == layer || strings.HasPrefix(dir, layer+"/") {
			return i
		}
	}
	return -1
}

func driverOf(file string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(file, "transport/")
	if !ok {
		return "", false
	}
	name, _, ok = strings.Cut(rest, "/")
	return name, ok
}
