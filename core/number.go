package core

import (
	"math"
	"strconv"
)

// toInt reads a JSON value as PHP's (int) does, but saturating: numbers and
// numeric strings are truncated, a string counts up to its first foreign
// character, bools are 0 and 1. null, lists and objects are missing.
func toInt(value []byte) (n int64, present bool) {
	if n, plain := plainInt(value); plain {
		return n, true
	}
	switch value[0] {
	case 'n', '[', '{':
		return 0, false
	case 't':
		return 1, true
	case 'f':
		return 0, true
	case '"':
		return leadingInt(unquote(value)), true
	}
	return leadingInt(string(value)), true
}

// plainInt reads what nearly every envelope has: a few digits.
func plainInt(value []byte) (n int64, plain bool) {
	if len(value) > 18 { // more might not fit
		return 0, false
	}
	for _, c := range value {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// leadingInt reads the number at the start of text: blanks, a sign, digits, a
// fraction, an exponent, each optional. No number is 0.
func leadingInt(text string) int64 {
	start := 0
	for start < len(text) && (text[start] == ' ' || '\t' <= text[start] && text[start] <= '\r') {
		start++
	}
	i := start
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		i++
	}
	whole := digitsEnd(text, i)
	end := whole
	if end < len(text) && text[end] == '.' {
		end = digitsEnd(text, end+1)
	}
	if whole == i && end <= whole+1 {
		return 0 // neither a digit before the point nor one after it
	}
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		exponent := end + 1
		if exponent < len(text) && (text[exponent] == '+' || text[exponent] == '-') {
			exponent++
		}
		if after := digitsEnd(text, exponent); after > exponent {
			end = after
		}
	}
	if end == whole {
		n, _ := strconv.ParseInt(text[start:end], 10, 64) // saturates by itself
		return n
	}
	f, _ := strconv.ParseFloat(text[start:end], 64) // ±Inf when out of range
	return saturate(f)
}

func digitsEnd(text string, i int) int {
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	return i
}

// saturate truncates f to the nearest int64.
func saturate(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// toCount is toInt for attempt and maxAttempts: from 1 to 2³¹−1.
func toCount(value []byte) (n int, present bool) {
	n64, present := toInt(value)
	return int(min(max(n64, 1), math.MaxInt32)), present
}
