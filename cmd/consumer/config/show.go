package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goconsumer/consumer/processes"
)

const hidden = "***"

// collectValues lists every effective value for people.
func (l *loader) collectValues() {
	for _, f := range l.fields {
		switch f.name {
		case "defaults": // part of every process's values
		case "processes":
			for _, name := range keysOf(l.root.at(f.name)) {
				from := layers{l.root.at(f.name, name), l.environment, l.root.at("defaults")}
				from.walk(f.each.fields, nil, l.addValue("processes."+name+"."))
			}
		default:
			if l.root.at(f.name) != nil {
				layers{process: l.root}.walk([]field{f}, nil, l.addValue(""))
			}
		}
	}
}

func (l *loader) addValue(prefix string) func(f field, path []string, v *resolved) {
	return func(f field, path []string, v *resolved) {
		if v == nil {
			return
		}
		text := format(v.data)
		switch {
		case f.secret && text != "":
			text = hidden
		case f.asWritten:
			text = v.written
		}
		l.config.values = append(l.config.values, Value{Key: prefix + strings.Join(path, "."), Text: processes.MaskURL(text), Source: v.source})
	}
}

// format writes a value as the file would have it.
func format(data any) string {
	switch v := data.(type) {
	case string:
		return v
	case time.Duration:
		return shortDuration(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = format(item)
		}
		return listed(items)
	}
	return fmt.Sprint(data)
}

func listed(items []string) string { return "[" + strings.Join(items, ", ") + "]" }

// shortDuration is 5m rather than 5m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
