package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

// environment is what a test's file can expand.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

func load(t *testing.T, text string, env environment) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "consumer.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path, config.Options{LookupEnv: env.lookup})
}

func mustLoad(t *testing.T, text string, env environment) *config.Config {
	t.Helper()
	c, err := load(t, text, env)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

// faultLines are the faults as "line: text".
func faultLines(t *testing.T, err error) []string {
	t.Helper()
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		t.Fatalf("got %v, want Faults", err)
	}
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = strings.TrimPrefix(f.Error(), filepath.Dir(f.File)+"/consumer.yaml:")
	}
	return lines
}

// small is a file with one process, and room for more of its keys.
func small(more ...string) string {
	return "transports:\n  r: {url: \"redis://127.0.0.1:6379/0\"}\nprocesses:\n  p:\n    transport: r\n    queue: q\n    " +
		strings.Join(more, "\n    ") + "\n"
}
