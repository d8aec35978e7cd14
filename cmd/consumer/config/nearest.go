package config

// nearest is the candidate with the fewest edits from word; ok is false when none
// is near enough to be a slip of the fingers.
func nearest(word string, candidates []string) (best string, ok bool) {
	limit := max(2, len(word)/2)
	for _, c := range candidates {
		if d := editDistance(word, c); d <= limit {
			best, limit, ok = c, d-1, true
		}
	}
	return best, ok
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours.
func editDistance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
