package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plant writes the edited file and the overlay that puts it in the place of the
// original.
func (l *lab) plant(i int, m mutant) (overlay string, err error) {
	path := filepath.Join(l.root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("its place is %d times in %s, not once: adapt the edit", n, m.file)
	}
	edited := filepath.Join(l.dir, fmt.Sprintf("%d%s", i, filepath.Ext(path)))
	if err := os.WriteFile(edited, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: edited}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(l.dir, fmt.Sprintf("%d.json", i))
	return overlay, os.WriteFile(overlay, text, 0o600)
}
