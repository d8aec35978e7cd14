package core

import "strings"

// bestMatch returns the index of the rule that fits jobType best: an exact name
// beats a pattern, the longer literal prefix beats the shorter; -1 = none.
func bestMatch(n int, pattern func(int) string, jobType string) int {
	best, length := -1, -1
	for i := range n {
		prefix, _, wild := strings.Cut(pattern(i), "*")
		switch {
		case !wild && prefix == jobType:
			return i
		case wild && strings.HasPrefix(jobType, prefix) && len(prefix) > length:
			best, length = i, len(prefix)
		}
	}
	return best
}
