package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${VAR} and ${VAR:-default} in a value and reads file:/path.
// $${ stands for a plain ${. Faults name the variable or the path, never what was
// found there.
func expand(text string, lookupEnv func(string) (string, bool)) (string, error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok && strings.HasPrefix(path, "/") {
		return readSecret(path)
	}
	var out strings.Builder
	for {
		start := strings.Index(text, "${")
		if start < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if start > 0 && text[start-1] == '$' {
			out.WriteString(text[:start-1] + "${")
			text = text[start+2:]
			continue
		}
		length := strings.IndexByte(text[start:], '}')
		if inner := strings.LastIndex(text[start:start+max(length, 0)], "${"); inner > 0 {
			return "", fmt.Errorf("has a ${ inside another one, which does not expand; give it a plain default")
		}
		if length < 0 {
			return "", fmt.Errorf("has a ${ without its }; write $${ for a plain one")
		}
		out.WriteString(text[:start])
		value, err := variable(text[start+2:start+length], lookupEnv)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[start+length+1:]
	}
}

// variable resolves what stands between ${ and }. As in a shell, the default of
// ${VAR:-default} also stands in for an empty VAR.
func variable(expression string, lookupEnv func(string) (string, bool)) (string, error) {
	name, fallback, hasFallback := strings.Cut(expression, ":-")
	if !variableName.MatchString(name) {
		return "", fmt.Errorf("has a ${…} that is neither ${VAR} nor ${VAR:-default}; write $${ for a plain ${")
	}
	value, set := lookupEnv(name)
	if hasFallback && value == "" {
		return fallback, nil
	}
	if !set {
		return "", fmt.Errorf("needs the environment variable %s, which is not set; set it or write ${%s:-default}", name, name)
	}
	return value, nil
}

func readSecret(path string) (string, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("can't be read: %w", err)
	}
	return strings.TrimRight(string(body), "\r\n"), nil
}
