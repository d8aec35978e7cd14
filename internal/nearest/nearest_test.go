package nearest

import "testing"

func TestOfFindsWhatWasMeant(t *testing.T) {
	t.Parallel()
	words := []string{"concurrency", "queue", "order.paid", "order.*"}
	for word, want := range map[string]string{
		"concurency":  "concurrency",
		"queeu":       "queue", // a swap is one edit
		"order.piad":  "order.paid",
		"ordr.*":      "order.*",
		"Concurrency": "concurrency",
		"prefetch":    "",
		"":            "",
	} {
		got, ok := Of(word, words)
		if got != want || ok != (want != "") {
			t.Errorf("Of(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}
