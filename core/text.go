package core

import (
	"strings"
	"unicode/utf8"
)

// CutText returns at most maxBytes of s as valid UTF-8, cut between characters.
// Bytes that are not UTF-8 become question marks.
func CutText(s string, maxBytes int) string {
	if len(s) > maxBytes {
		cut := max(maxBytes, 0)
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return strings.ToValidUTF8(s, "?")
}

// cutRunes is CutText counted in characters.
func cutRunes(s string, maxRunes int) string {
	n := 0
	for i := range s {
		if n == maxRunes {
			s = s[:i]
			break
		}
		n++
	}
	return strings.ToValidUTF8(s, "?")
}
