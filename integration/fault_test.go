package integration

import (
	"testing"
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

func TestKilledOnceAtEachFaultPointLosesNothing(t *testing.T) {
	t.Parallel()
	for _, point := range fault.Points() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			l := newPlay(t, "1")
			published := push(t, l.client, "play", "play.job", 60, func(i int) string {
				return []string{
					`{"ms":5}`, `{"ms":5}`, `{"do":["RETRY","SUCCESS"],"ms":5}`, `{"do":["FAIL"],"ms":5}`,
					`{"do":["DISCARD"],"ms":5}`, `{"ms":20}`,
				}[i%6]
			})
			p := l.start(binaries.faulty, []string{"CONSUMER_FAULTS=" + string(point) + "=kill@3"}, "run", "--process=play")
			if code := p.wait(20 * time.Second); code != -1 {
				t.Fatalf("the worker ended with exit code %d in place of SIGKILL:\n%s", code, p.stderr.tail())
			}
			conserve(t, published, holds(t, l.client, "play"), l.readLedger)

			p = l.start(binaries.worker, nil, "run", "--process=play")
			l.awaitEmpty("play", 30*time.Second)
			p.stop(10 * time.Second)
			h := holds(t, l.client, "play")
			if duplicates := conserve(t, published, h, l.readLedger); duplicates > maxInFlight {
				t.Errorf("%d duplicates, at most %d were in flight", duplicates, maxInFlight)
			}
			if len(h.dead) != 10 {
				t.Errorf("%d dead letters, want the 10 jobs that FAIL", len(h.dead))
			}
		})
	}
}
