package core

import (
	"encoding/binary"
	"math/bits"
)

// This file is the JSON reader under Decode: it finds where values begin and
// end and never builds them, so that bytes pass through as they came. All
// functions take the whole text and an index into it and return the index after
// what they read, or, with ok false, the index of the first byte that cannot be
// right (len(b) where the text ends too early). None of them recurses, so depth
// costs one byte a level and nothing else.

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// scanString reads the string whose opening quote is b[i].
func scanString(b []byte, i int) (end int, escaped, ok bool) {
	i++
	for {
		if i = skipPlain(b, i); i == len(b) {
			return i, escaped, false
		}
		if b[i] == '"' {
			return i + 1, escaped, true
		}
		if b[i] != '\\' { // a control character
			return i, escaped, false
		}
		escaped = true
		if i, ok = scanEscape(b, i+1); !ok {
			return i, escaped, false
		}
		i++
	}
}

// skipPlain returns the index of the first quote, backslash or control character
// at or after i. It looks at eight bytes at a time: most of an envelope is text.
func skipPlain(b []byte, i int) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^each*'"', x^each*'\\'
		// In each of these a byte's high bit is set where it is the one looked
		// for. A borrow may also set higher ones, but never a lower one.
		found := (quote-each)&^quote | (slash-each)&^slash | (x-each*' ')&^x
		if found &= high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// scanEscape reads what follows a backslash and returns the index of its last
// byte.
func scanEscape(b []byte, i int) (last int, ok bool) {
	if i == len(b) {
		return i, false
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i, true
	case 'u':
		for range 4 {
			if i++; i == len(b) || !isHex(b[i]) {
				return i, false
			}
		}
		return i, true
	}
	return i, false
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// scanNumber reads the number that begins at b[i].
func scanNumber(b []byte, i int) (end int, ok bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, ok = scanDigits(b, i); !ok {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = scanDigits(b, i+1); !ok {
			return i, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i, ok = scanDigits(b, i); !ok {
			return i, false
		}
	}
	return i, true
}

// scanDigits reads one digit or more.
func scanDigits(b []byte, i int) (end int, ok bool) {
	start := i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i, i > start
}

func scanWord(b []byte, i int, word string) (end int, ok bool) {
	for k := range len(word) {
		if i == len(b) || b[i] != word[k] {
			return i, false
		}
		i++
	}
	return i, true
}

// scanScalar reads a value that is neither an object nor a list.
func scanScalar(b []byte, i int) (end int, ok bool) {
	switch b[i] {
	case '"':
		end, _, ok = scanString(b, i)
		return end, ok
	case 't':
		return scanWord(b, i, "true")
	case 'f':
		return scanWord(b, i, "false")
	case 'n':
		return scanWord(b, i, "null")
	}
	return scanNumber(b, i)
}

// scanKey reads an object's key and the colon after it. Space before either is
// skipped.
func scanKey(b []byte, i int) (end int, ok bool) {
	i = skipSpace(b, i)
	if i == len(b) || b[i] != '"' {
		return i, false
	}
	if i, _, ok = scanString(b, i); !ok {
		return i, false
	}
	i = skipSpace(b, i)
	if i == len(b) || b[i] != ':' {
		return i, false
	}
	return i + 1, true
}

// scanValue reads the value that begins at b[i].
func scanValue(b []byte, i int) (end int, ok bool) {
	if i < len(b) && b[i] != '{' && b[i] != '[' {
		return scanScalar(b, i)
	}
	var levels [32]byte
	open := levels[:0] // the closing byte of every container we are in
	for {
		i = skipSpace(b, i)
		if i == len(b) {
			return i, false
		}
		opened := false
		if c := b[i]; c == '{' || c == '[' {
			open = append(open, c+2) // '}' and ']' stand two after their openers
			i = skipSpace(b, i+1)
			opened = i == len(b) || b[i] != c+2
		} else if i, ok = scanScalar(b, i); !ok {
			return i, false
		}
		if opened {
			if open[len(open)-1] == '}' {
				if i, ok = scanKey(b, i); !ok {
					return i, false
				}
			}
			continue
		}
		if i, open, ok = scanClosers(b, i, open); !ok || len(open) == 0 {
			return i, ok
		}
	}
}

// scanClosers goes on from the end of a value to where the next one begins, or
// to the end of the outermost container.
func scanClosers(b []byte, i int, open []byte) (next int, rest []byte, ok bool) {
	for len(open) > 0 {
		i = skipSpace(b, i)
		if i == len(b) {
			return i, open, false
		}
		closer := open[len(open)-1]
		switch b[i] {
		case closer:
			open = open[:len(open)-1]
			i++
		case ',':
			if closer == '}' {
				i, ok = scanKey(b, i+1)
				return i, open, ok
			}
			return i + 1, open, true
		default:
			return i, open, false
		}
	}
	return i, open, true
}
