package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestDueTimesAreMet spreads due times over some seconds. The everyday bound has
// slack for busy machines; the acceptance run holds the promise of 50 ms.
func TestDueTimesAreMet(t *testing.T) {
	if !full {
		t.Parallel()
	}
	n, spread := sized(1_000, 10_000), time.Duration(sized(3, 10))*time.Second
	limit := time.Duration(sized(1_000, 50)) * time.Millisecond

	l := newLab(t, `
transports:
  redis: {url: "REDIS"}
processes:
  play: {transport: redis, queue: play, concurrency: 64}
`)
	p := l.start(binaries.worker, nil, "run", "--process=play")
	now, err := l.client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	first := now.Add(time.Second)
	due := map[string]int64{}
	for batch := range slices.Chunk(numbers(0, n), 1000) {
		var members []redis.Z
		for _, i := range batch {
			id := fmt.Sprintf("due-%06d", i)
			due[id] = first.Add(spread * time.Duration(i) / time.Duration(n)).UnixMilli()
			members = append(members, redis.Z{Score: float64(due[id]), Member: envelope(id, "play.job", "{}")})
		}
		if err := l.client.ZAdd(t.Context(), "dq:delay:{play}", members...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, spread+30*time.Second, "all delayed jobs ran", func() bool { return len(l.readLedger()) == n })
	p.stop(10 * time.Second)

	var late []time.Duration
	for _, r := range l.readLedger() {
		late = append(late, time.Duration(r.Start-due[r.ID])*time.Millisecond)
	}
	slices.Sort(late)
	p50, p99 := late[len(late)/2], late[len(late)*99/100]
	t.Logf("%d due times over %s: lateness p50 %s, p99 %s, worst %s", n, spread, p50, p99, late[len(late)-1])
	if late[0] < 0 {
		t.Errorf("a job ran %s before it was due", -late[0])
	}
	if p99 > limit {
		t.Errorf("lateness p99 %s, at most %s", p99, limit)
	}
}
