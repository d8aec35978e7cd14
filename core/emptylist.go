package core

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// emptyListsToObjects returns raw with every [] that meets a struct or a map of t
// turned into {}. raw is valid JSON and is not changed; it is walked once.
func emptyListsToObjects(raw []byte, t reflect.Type) (fixed []byte, changed bool) {
	w := emptyListWalk{json: slices.Clone(raw)}
	w.value(skipSpace(raw, 0), t)
	return w.json, w.changed
}

type emptyListWalk struct {
	json    []byte
	changed bool
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value walks the value at i, which goes into t (nil = of no interest), and
// returns the index after it.
func (w *emptyListWalk) value(i int, t reflect.Type) (end int) {
	for t != nil && t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	if t == nil || t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		end, _ = scanValue(w.json, i)
		return end
	}
	switch w.json[i] {
	case '{':
		return w.object(i, t)
	case '[':
		return w.list(i, t)
	}
	end, _ = scanScalar(w.json, i)
	return end
}

func (w *emptyListWalk) list(i int, t reflect.Type) (end int) {
	first := skipSpace(w.json, i+1)
	if w.json[first] == ']' {
		if t.Kind() == reflect.Struct || t.Kind() == reflect.Map {
			w.json[i], w.json[first] = '{', '}'
			w.changed = true
		}
		return first + 1
	}
	var element reflect.Type
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		element = t.Elem()
	}
	for i = first; ; i = skipSpace(w.json, i+1) {
		i = skipSpace(w.json, w.value(i, element))
		if w.json[i] == ']' {
			return i + 1
		}
	}
}

func (w *emptyListWalk) object(i int, t reflect.Type) (end int) {
	i = skipSpace(w.json, i+1)
	for w.json[i] != '}' {
		keyEnd, _, _ := scanString(w.json, i)
		key := unquote(w.json[i:keyEnd])
		i = skipSpace(w.json, skipSpace(w.json, keyEnd)+1) // over the colon
		i = skipSpace(w.json, w.value(i, memberType(t, key)))
		if w.json[i] == ',' {
			i = skipSpace(w.json, i+1)
		}
	}
	return i + 1
}

// memberType is the type into which encoding/json puts the member key of t, nil
// where it puts it nowhere.
func memberType(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var folded reflect.Type
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case !field.IsExported() || name == "-":
			continue
		case name == "" && field.Anonymous: // its fields are visible themselves
			continue
		case name == "":
			name = field.Name
		}
		if name == key {
			return field.Type
		}
		if folded == nil && strings.EqualFold(name, key) {
			folded = field.Type
		}
	}
	return folded
}
