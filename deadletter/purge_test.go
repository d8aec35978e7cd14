package deadletter

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPurgeRemovesWhatIsChosenAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter Filter
		purged int
	}{
		"all":     {Filter{}, 11}, // readable or not
		"type":    {Filter{Type: "mail.*"}, 5},
		"limited": {Filter{Reason: "exhausted", Limit: 2}, 2},
		"nothing": {Filter{ID: "nobody"}, 0},
	} {
		s := stock()
		var want []string
		left := c.filter.Limit
		for _, stored := range s.entries {
			if e := Read([]byte(stored)); c.filter.Match(e) && (c.filter.Limit == 0 || left > 0) {
				left--
			} else {
				want = append(want, stored)
			}
		}
		if n, err := Purge(t.Context(), s, c.filter, PurgeOptions{DryRun: true}); n != c.purged || err != nil || len(s.entries) != 11 {
			t.Errorf("%s, dry run: %d, %v, %d entries are left", name, n, err, len(s.entries))
		}
		if n, err := Purge(t.Context(), s, c.filter, PurgeOptions{}); n != c.purged || err != nil || !slices.Equal(s.entries, want) {
			t.Errorf("%s: %d, %v, left %q", name, n, err, s.entries)
		}
	}
}

func TestPurgeKeepsTheRateTellsItsProgressAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told [][2]int
		start := time.Now()
		n, err := Purge(t.Context(), stock(), Filter{Type: "mail.send"}, PurgeOptions{Rate: 5, Progress: func(visited, purged int) {
			told = append(told, [2]int{visited, purged})
		}})
		if took := time.Since(start); n != 5 || err != nil || took != time.Second {
			t.Fatalf("5 entries at 5/s took %s: %d, %v", took, n, err)
		}
		if last := told[len(told)-1]; last != [2]int{11, 5} {
			t.Fatalf("progress %v", told)
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := stock()
		n, err = Purge(ctx, s, Filter{}, PurgeOptions{Rate: 5, Progress: func(int, int) { cancel() }})
		if n != 1 || !errors.Is(err, context.Canceled) || len(s.entries) != 10 {
			t.Fatalf("cancelled after the first: %d, %v, %d are left", n, err, len(s.entries))
		}
		s.failAfter = 2
		if n, err = Purge(t.Context(), s, Filter{}, PurgeOptions{}); n != 2 || err == nil {
			t.Fatalf("a store that breaks: %d, %v", n, err)
		}
	})
}
