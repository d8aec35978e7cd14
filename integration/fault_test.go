package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

// scene brings a program with fault points to its death at a point. It returns
// the published ids and how many jobs must end as dead letters.
type scene func(l *lab, point fault.Point) (published []string, dead int)

// scenes are for the points that everyday work does not pass.
var scenes = map[fault.Point]scene{
	fault.EngineIsolating:   dieWithSuspects,
	fault.RedisIsolateAsked: dieWithSuspects,
	fault.RedisIsolated:     dieWithSuspects,
	fault.RedisRecoverAsked: dieRecovering,
	fault.RedisRecovered:    dieRecovering,
	fault.RedisReleaseAsked: dieReleasing,
	fault.RedisReleased:     dieReleasing,
	fault.RedisPublishAsked: diePublishing,
	fault.RedisPublished:    diePublishing,
	fault.RedisTakeAsked:    dieReplaying,
	fault.RedisTaken:        dieReplaying,
	fault.EngineDeadStored:  dieBurying,
}

func TestKilledOnceAtEachFaultPointLosesNothing(t *testing.T) {
	t.Parallel()
	for _, point := range fault.Points() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			l := newPlay(t, "1")
			die := scenes[point]
			if die == nil {
				die = dieWorking
			}
			published, dead := die(l, point)
			conserve(t, published, holds(t, l.client, "play"), l.readLedger)

			p := l.start(binaries.worker, nil, "run", "--process=play")
			l.awaitEmpty("play", 30*time.Second)
			p.stop(10 * time.Second)
			h := holds(t, l.client, "play")
			if duplicates := conserve(t, published, h, l.readLedger); duplicates > maxInFlight {
				t.Errorf("%d duplicates, at most %d were in flight", duplicates, maxInFlight)
			}
			if len(h.dead) != dead || h.waiting() > 0 {
				t.Errorf("%d dead letters, want %d; %d jobs still wait", len(h.dead), dead, h.waiting())
			}
		})
	}
}

// dieAt starts a program that dies at the nth pass of a point.
func (l *lab) dieAt(point fault.Point, pass int, args ...string) *program {
	l.t.Helper()
	return l.start(binaries.faulty, []string{fmt.Sprintf("CONSUMER_FAULTS=%s=kill@%d", point, pass)}, args...)
}

// awaitDeath wants SIGKILL as the end.
func (p *program) awaitDeath() {
	p.t.Helper()
	if code := p.wait(20 * time.Second); code != -1 {
		p.t.Fatalf("the program ended with exit code %d in place of SIGKILL:\n%s", code, p.stderr.tail())
	}
}

// mixed are jobs of every outcome; ten of sixty FAIL.
func mixed(l *lab) []string {
	return push(l.t, l.client, "play", "play.job", 60, func(i int) string {
		return []string{
			`{"ms":5}`, `{"ms":5}`, `{"do":["RETRY","SUCCESS"],"ms":5}`, `{"do":["FAIL"],"ms":5}`,
			`{"do":["DISCARD"],"ms":5}`, `{"ms":20}`,
		}[i%6]
	})
}

func dieWorking(l *lab, point fault.Point) ([]string, int) {
	published := mixed(l)
	l.dieAt(point, 3, "run", "--process=play").awaitDeath()
	return published, 10
}

// dieBurying keeps dead letters on a transport of their own, so that they are
// stored before the job is settled.
func dieBurying(l *lab, point fault.Point) ([]string, int) {
	l.configure(strings.NewReplacer("REPLICAS", "1", "REDIS\"}", l.server.URL()+"\"}\n  dead: {url: \""+l.server.URL()+"\"}",
		"queue: play", "queue: play\n    dead_letter: {driver: redis_list, transport: dead}").Replace(playConfig))
	published := mixed(l)
	l.dieAt(point, 1, "run", "--process=play").awaitDeath()
	return published, 10 + len(holds(l.t, l.client, "play").dead)
}

func diePublishing(l *lab, point fault.Point) ([]string, int) {
	p := l.dieAt(point, 1, "publish", "--process=play", "--type=play.job", "--count=10")
	p.awaitDeath()
	return strings.Fields(p.stdout.String()), 0 // only what it said is published
}

// dieReplaying dies in the second batch of a replay.
func dieReplaying(l *lab, point fault.Point) ([]string, int) {
	var published []string
	for i := range 60 {
		id := fmt.Sprintf("dead-%02d", i)
		published = append(published, id)
		record := `{"job":` + envelope(id, "play.job", `{}`) + `,"error":"it failed","at":1720764000,"reason":"failed"}`
		if err := l.client.LPush(l.t.Context(), "job:dead:{play}", record).Err(); err != nil {
			l.t.Fatal(err)
		}
	}
	l.dieAt(point, 2, "dlq", "replay", "--process=play", "--rate=200").awaitDeath()
	code, stdout, stderr := l.run(binaries.stock, "dlq", "replay", "--process=play")
	if code != 0 || stdout == "" {
		l.t.Errorf("the replay after the kill: exit code %d, %q, %s", code, stdout, stderr)
	}
	sameIDs(l.t, "ready", holds(l.t, l.client, "play").ready, published)
	return published, 0
}

// dieReleasing stops a worker whose jobs are too slow for its shutdown.
func dieReleasing(l *lab, point fault.Point) ([]string, int) {
	l.configure(strings.NewReplacer("REPLICAS", "1", "REDIS", l.server.URL(), "shutdown_timeout: 5s", "shutdown_timeout: 200ms").Replace(playConfig))
	published := slowJobs(l)
	p := l.dieAt(point, 1, "run", "--process=play")
	l.awaitProcessing(len(published), nil)
	p.signal(syscall.SIGTERM)
	p.awaitDeath()
	return published, 0
}

// dieRecovering takes over the jobs of a worker that vanished.
func dieRecovering(l *lab, point fault.Point) ([]string, int) {
	published := slowJobs(l)
	vanish(l, len(published), nil)
	l.dieAt(point, 1, "run", "--process=play").awaitDeath()
	return published, 0
}

// dieWithSuspects meets jobs that were found twice after their worker vanished.
func dieWithSuspects(l *lab, point fault.Point) ([]string, int) {
	published := slowJobs(l)
	first := vanish(l, len(published), nil)
	vanish(l, len(published), first)
	l.dieAt(point, 1, "run", "--process=play").awaitDeath()
	return published, 0
}

func slowJobs(l *lab) []string {
	return push(l.t, l.client, "play", "play.job", 4, func(int) string { return `{"ms":1500}` })
}

// vanish runs a worker until it holds n jobs in a list that is not in known, and
// kills it. It returns the lists that are known now.
func vanish(l *lab, n int, known map[string]bool) map[string]bool {
	p := l.start(binaries.worker, nil, "run", "--process=play")
	lists := l.awaitProcessing(n, known)
	p.kill()
	return lists
}

// awaitProcessing waits until one processing list that is not in known holds n
// jobs, and returns the names of all there are.
func (l *lab) awaitProcessing(n int, known map[string]bool) map[string]bool {
	l.t.Helper()
	lists := map[string]bool{}
	eventually(l.t, 20*time.Second, "a worker holds the jobs", func() bool {
		held := false
		for _, key := range keys(l.t, l.client, "dq:processing:{play}:*") {
			lists[key] = true
			held = held || !known[key] && l.client.LLen(l.t.Context(), key).Val() == int64(n)
		}
		return held
	})
	return lists
}
