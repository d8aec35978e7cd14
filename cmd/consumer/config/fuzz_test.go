package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

// FuzzLoad: whatever the file holds, Load gives a config or faults with lines in
// it, and never both or neither.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{whole, mixed, small(), "", "a: [", "? {}: b", "processes: &a {<<: *a}", "- 1\n- 2", "processes: {p: }", "\xff", "a: !!binary x", "%YAML 1.1\n---\n"} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "consumer.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, config.Options{LookupEnv: environment{}.lookup})
		faults, _ := errors.AsType[config.Faults](err)
		if (c == nil) == (len(faults) == 0) {
			t.Fatalf("config %v, faults %v", c, err)
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Text == "" {
				t.Errorf("fault without a line or text: %+v", fault)
			}
		}
		if c != nil {
			c.Select(nil)
		}
	})
}
