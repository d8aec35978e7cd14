package core

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// object walks the members of a JSON object in order and checks the text on its
// way. Afterwards ok says whether the object was right; pos is the index after
// it, or of the first byte that cannot be right.
type object struct {
	b     []byte
	pos   int
	begun bool
	ok    bool
}

// span is a piece of a text; the zero span is an absent one.
type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end:s.end] }
func (s span) len() int           { return s.end - s.start }
func (s span) absent() bool       { return s.end == 0 }

// member is one key and its value. key has its quotes.
type member struct {
	key, value span
	escaped    bool // key has escapes
}

// openObject begins at the brace b[at].
func openObject(b []byte, at int) object { return object{b: b, pos: at + 1} }

// next reads the next member into m; it returns false at the end and at a fault.
func (o *object) next(m *member) bool {
	b, i := o.b, skipSpace(o.b, o.pos)
	o.pos = i
	if i < len(b) && b[i] == '}' {
		o.pos, o.ok = i+1, true
		return false
	}
	if o.begun {
		if i == len(b) || b[i] != ',' {
			return false
		}
		i = skipSpace(b, i+1)
	}
	o.begun = true
	if o.pos = i; i == len(b) || b[i] != '"' {
		return false
	}
	var ok bool
	m.key.start = i
	if i, m.escaped, ok = scanString(b, i); !ok {
		o.pos = i
		return false
	}
	m.key.end = i
	i = skipSpace(b, i)
	if o.pos = i; i == len(b) || b[i] != ':' {
		return false
	}
	m.value.start = skipSpace(b, i+1)
	o.pos, ok = scanValue(b, m.value.start)
	m.value.end = o.pos
	return ok
}

// name returns the key's text: a piece of b unless it has escapes.
func (m *member) name(b []byte) []byte {
	if m.escaped {
		return []byte(unquote(m.key.of(b)))
	}
	return b[m.key.start+1 : m.key.end-1]
}

// unquote returns the text of a JSON string that was scanned before. A lone
// surrogate becomes U+FFFD.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		var text string
		_ = json.Unmarshal(quoted, &text) // cannot fail: the string was scanned
		return text
	}
	return string(inner)
}

// appendString writes text as a JSON string. Only what JSON demands is escaped;
// bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	start := 0 // of what is not yet written
	for i := 0; i < len(text); {
		c := text[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, text[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, text[start:i]...)
			dst = append(dst, "\uFFFD"...)
			start = i + 1
		}
		i += size
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
