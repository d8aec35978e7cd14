package redis

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goconsumer/consumer/core"
)

// driverSources are the texts of the package's own files.
func driverSources(t *testing.T) map[string]string {
	t.Helper()
	return read(t, "*.go", func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
}

func read(t *testing.T, pattern string, want func(string) bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		if want(f) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[f] = string(text)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	return out
}

// A key that is made up inside a script is in a slot that the Cluster does not
// know of.
func TestScriptsTakeEveryKeyFromKEYS(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`(?:redis\.p?call|try)\('([A-Z]+)', ([^,)]+)`)
	key := regexp.MustCompile(`^(KEYS\[\w+\]|consumers|members|gone|found|ready|processing|sequence|delay|bell|dead|key)$`)
	for file, source := range read(t, "lua/*.lua", func(string) bool { return true }) {
		for _, m := range call.FindAllStringSubmatch(source, -1) {
			if !key.MatchString(m[2]) {
				t.Errorf("%s: %s on %s, which is no declared key", file, m[1], m[2])
			}
		}
	}
}

func TestAllKeysOfAQueueAreInOneSlot(t *testing.T) {
	t.Parallel()
	k := newKeys(core.Binding{Queue: "a.b-c_d", Priority: core.PriorityLevels}, Options{}.withDefaults())
	for _, name := range append(k.lists, k.delay, k.dead, k.members, k.consumers, k.gone, k.found, k.bell, k.processing+"x{y}", k.sequence+"x") {
		open, end := strings.Index(name, "{"), strings.Index(name, "}")
		if open < 0 || name[open:end+1] != "{a.b-c_d}" {
			t.Errorf("%s has another hash tag", name)
		}
	}
}
