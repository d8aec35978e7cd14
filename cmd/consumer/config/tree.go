package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/goconsumer/consumer/internal/nearest"
)

// entry is one value that was written and passed its field: in the file, or in
// the environment (line 0).
type entry struct {
	line, column int
	source       string
	data         any    // a scalar, or a list as []any; nil for a section
	written      string // a scalar or list before expansion
	keys         []string
	children     map[string]*entry
	faulty       map[string]bool // keys that were written and left out for a fault
}

// at finds the entry below e; nil when it was not written.
func (e *entry) at(path ...string) *entry {
	for _, key := range path {
		if e == nil {
			return nil
		}
		e = e.children[key]
	}
	return e
}

func (e *entry) set(key string, child *entry) {
	if e.children == nil {
		e.children = map[string]*entry{}
	}
	e.keys = append(e.keys, key)
	e.children[key] = child
}

func (e *entry) leaveOut(key string) {
	if e.faulty == nil {
		e.faulty = map[string]bool{}
	}
	e.faulty[key] = true
}

// has tells whether a key was written, faulty or not.
func (e *entry) has(key string) bool {
	return e != nil && (e.children[key] != nil || e.faulty[key])
}

// reader turns YAML into entries and collects every fault on the way.
type reader struct {
	file      string
	lookupEnv func(string) (string, bool)
	anchors   map[string]ast.Node
	faults    Faults
}

func (r *reader) fault(line, column int, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: r.file, Line: line, Column: column, Text: fmt.Sprintf(format, args...)})
}

// read parses a whole file. An empty one is an empty section; a byte order mark
// at its start is no part of it.
func (r *reader) read(body []byte, fields []field) *entry {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) {
		r.fault(invalidLine(body), 1, "is not UTF-8; save the file as UTF-8")
		return &entry{}
	}
	parsed, err := parser.ParseBytes(body, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		// The error's own text would quote the file around the fault.
		if e, ok := errors.AsType[*yaml.SyntaxError](err); ok && e.Token != nil {
			r.fault(e.Token.Position.Line, e.Token.Position.Column, "is not valid YAML: %s", e.Message)
		} else {
			r.fault(1, 1, "is not valid YAML")
		}
		return &entry{}
	}
	root := &entry{}
	docs := slices.DeleteFunc(parsed.Docs, func(doc *ast.DocumentNode) bool {
		_, directive := doc.Body.(*ast.DirectiveNode) // %YAML 1.2
		return directive
	})
	for i, doc := range docs {
		if i > 0 && doc.Body != nil {
			line, column := position(doc.Body)
			r.fault(line, column, "a second YAML document begins here; the file must be a single one")
			break
		}
		if doc.Body != nil {
			ast.Walk(anchorFinder(r.anchors), doc.Body)
			root = r.section(field{fields: fields}, doc.Body, "")
		}
	}
	return root
}

// invalidLine is the line of the first byte that is not UTF-8.
func invalidLine(body []byte) int {
	line := 1
	for len(body) > 0 {
		c, size := utf8.DecodeRune(body)
		if c == utf8.RuneError && size == 1 {
			break
		}
		if c == '\n' {
			line++
		}
		body = body[size:]
	}
	return line
}

func (r *reader) newEntry(n ast.Node) *entry {
	line, column := position(n)
	return &entry{line: line, column: column, source: fmt.Sprintf("%s:%d", r.file, line)}
}

// value reads what stands at path; nil when it has a fault.
func (r *reader) value(f field, at *ast.MappingValueNode, path string) *entry {
	n := r.plain(at.Value)
	switch {
	case f.scalar != nil:
		return r.scalar(f.scalar, n, at.Key, path)
	case f.list != nil:
		return r.list(f, n, at.Key, path)
	}
	e := r.section(f, n, path)
	if e != nil {
		e.line, e.column = position(at.Key)
		e.source = fmt.Sprintf("%s:%d", r.file, e.line)
	}
	return e
}

func (r *reader) section(f field, n ast.Node, path string) *entry {
	e := r.newEntry(n)
	pairs, ok := r.pairs(n, maxMerges)
	if !ok {
		r.fault(e.line, e.column, "%s must be a section of keys and values", whereIs(path))
		return nil
	}
	firstLine := map[string]int{}
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		line, column := position(pair.Key)
		if before, twice := firstLine[key]; twice {
			r.fault(line, column, "%q is there twice, first in line %d", key, before)
			continue
		}
		firstLine[key] = line
		child, ok := r.fieldFor(f, e, key, line, column, path)
		if !ok {
			continue
		}
		if v := r.value(child, pair, join(path, key)); v != nil {
			e.set(key, v)
		} else {
			e.leaveOut(key)
		}
	}
	return e
}

// fieldFor finds what a key means in a section. What a typo stands for counts as
// written, so that one mistake is one fault.
func (r *reader) fieldFor(f field, e *entry, key string, line, column int, path string) (field, bool) {
	if f.each != nil {
		if _, err := f.each.key(key); err != nil {
			r.fault(line, column, "the name of a %s %s", f.each.name, err)
			return field{}, false
		}
		return *f.each, true
	}
	known := make([]string, len(f.fields))
	for i, child := range f.fields {
		if child.name == key {
			return child, true
		}
		known[i] = child.name
	}
	where := ""
	if path != "" {
		where = " in " + path
	}
	switch best, ok := nearest.Of(key, known); {
	case ok:
		e.leaveOut(best)
		r.fault(line, column, "unknown key %q%s; did you mean %q?", key, where, best)
	case len(known) == 0:
		r.fault(line, column, "unknown key %q%s, which has no keys", key, where)
	default:
		r.fault(line, column, "unknown key %q%s; known are %s", key, where, strings.Join(known, ", "))
	}
	return field{}, false
}

func (r *reader) scalar(read parse, n, key ast.Node, path string) *entry {
	e := r.newEntry(n)
	if _, null := n.(*ast.NullNode); null { // its token may be far below the key
		e.line, e.column = position(key)
		r.fault(e.line, e.column, "%s has no value", path)
		return nil
	}
	text, ok := scalarText(n)
	if !ok {
		r.fault(e.line, e.column, "%s must be a single value", path)
		return nil
	}
	e.written = text
	text, err := expand(text, r.lookupEnv)
	if err == nil {
		e.data, err = read(text)
	}
	if err != nil {
		r.fault(e.line, e.column, "%s %s", path, err)
		return nil
	}
	return e
}

func (r *reader) list(f field, n, key ast.Node, path string) *entry {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		line, column := position(key)
		r.fault(line, column, "%s must be a list, for example [a, b]", path)
		return nil
	}
	e := r.newEntry(n)
	items, written := []any{}, []string{}
	for _, item := range sequence.Values {
		if v := r.scalar(f.list, r.plain(item), item, "each item of "+path); v != nil {
			items, written = append(items, v.data), append(written, v.written)
		}
	}
	e.data, e.written = items, listed(written)
	return e
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func whereIs(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}
