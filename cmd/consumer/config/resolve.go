package config

import (
	"fmt"
)

// resolved is an effective value and where it came from.
type resolved struct {
	data    any
	source  string
	line    int // 0: not in the file
	column  int
	written string // in the file, before expansion
}

// layers finds a process's values: what it says itself, then the environment,
// then defaults, then what is built in.
type layers struct {
	process, environment, defaults *entry
}

// value is nil when nobody says anything.
func (l layers) value(f field, path ...string) *resolved {
	if e := l.process.at(path...); e != nil {
		return &resolved{e.data, e.source, e.line, e.column, e.written}
	}
	if e := l.environment.at(path...); e != nil {
		return &resolved{data: e.data, source: e.source}
	}
	if e := l.defaults.at(path...); e != nil {
		return &resolved{e.data, fmt.Sprintf("defaults (%s)", e.source), e.line, e.column, e.written}
	}
	if f.builtin != nil {
		return &resolved{data: f.builtin, source: "built-in"}
	}
	return nil
}

// walk visits every field that is no section, in the schema's order, with its
// path and value. The free keys of a section come from the process, or else
// from defaults.
func (l layers) walk(fields []field, path []string, visit func(f field, path []string, v *resolved)) {
	for _, f := range fields {
		here := append(path[:len(path):len(path)], f.name)
		switch {
		case f.each != nil:
			section := l.process.at(here...)
			if section == nil {
				section = l.defaults.at(here...)
			}
			if section == nil {
				continue
			}
			for _, key := range section.keys {
				each := *f.each
				each.name = key
				l.walk([]field{each}, here, visit)
			}
		case f.fields != nil && len(f.fields) == 0: // shows that it is there
			if e := l.process.at(here...); e != nil {
				visit(f, here, &resolved{data: "{}", source: e.source})
			}
		case f.fields != nil:
			l.walk(f.fields, here, visit)
		default:
			visit(f, here, l.value(f, here...))
		}
	}
}

// readEnvironment makes a layer of the JOB_* variables. An empty one counts as
// unset.
func readEnvironment(fields []field, lookupEnv func(string) (string, bool)) (*entry, Faults) {
	layer := &entry{}
	var faults Faults
	for _, f := range fields {
		if f.fields != nil {
			child, more := readEnvironment(f.fields, lookupEnv)
			faults = append(faults, more...)
			if len(child.keys) > 0 { // else the section would count as written
				layer.set(f.name, child)
			}
			continue
		}
		text, _ := lookupEnv(f.env)
		if f.env == "" || text == "" {
			continue
		}
		read := f.scalar
		if f.envRead != nil {
			read = f.envRead
		}
		data, err := read(text)
		if err != nil {
			faults = append(faults, Fault{File: "environment", Text: f.env + " " + err.Error()})
			continue
		}
		layer.set(f.name, &entry{data: data, source: f.env})
	}
	return layer, faults
}
