package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newIsolated is a lab whose process play runs its replicas in OS processes of their
// own. more are further lines of the process.
func newIsolated(t *testing.T, replicas string, more ...string) *lab {
	t.Helper()
	lines := strings.Join(append([]string{"max_crashes: 3", "isolation: os"}, more...), "\n    ")
	config := strings.NewReplacer("REPLICAS", replicas, "max_crashes: 3", lines).Replace(playConfig)
	return newLab(t, config+fmt.Sprintf("\nadmin: {listen: %q}\n", freeAddress(t)))
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// hosted is one process as the admin address shows it.
type hosted struct {
	Process  string
	State    string
	Ready    bool
	Paused   bool
	InFlight int `json:"in_flight"`
	Restarts int
	PIDs     []int
}

// hosts reads what a host says of its processes.
func hosts(t *testing.T, addr string) map[string]hosted {
	t.Helper()
	_, body := get(addr, "/api/v1/processes")
	var all []hosted
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("the admin address answers %s: %v", body, err)
	}
	named := map[string]hosted{}
	for _, p := range all {
		named[p.Process] = p
	}
	return named
}

// startIsolated starts a host and waits until its replicas work.
func (l *lab) startIsolated() (p *program, addr string) {
	l.t.Helper()
	p = l.start(binaries.worker, nil, "run", "--all")
	addr = p.adminAddr()
	awaitReadiness(l.t, addr, http.StatusOK, 15*time.Second)
	return p, addr
}

// pushMore LPUSHes n further jobs of type play.job and returns the ids of all.
func (l *lab) pushMore(ids []string, n int, payload func(i int) string) []string {
	l.t.Helper()
	pipe := l.client.Pipeline()
	for range n {
		i := len(ids)
		ids = append(ids, fmt.Sprintf("play-%06d", i))
		pipe.LPush(l.t.Context(), "dq:ready:{play}", envelope(ids[i], "play.job", payload(i)))
	}
	if _, err := pipe.Exec(l.t.Context()); err != nil {
		l.t.Fatalf("push: %v", err)
	}
	return ids
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func awaitDeath(t *testing.T, pids []int, limit time.Duration) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("the child processes %v are gone", pids), func() bool {
		return !slices.ContainsFunc(pids, alive)
	})
}

func TestReplicasKilledUnderLoadLeaveTheOthersAloneAndLoseNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills, perKill := sized(5, 20), 400

	l := newIsolated(t, "3")
	var published []string
	p, addr := l.startIsolated()
	for range kills {
		before := len(l.readLedger()) // before the push: every kill has work of its own
		published = l.pushMore(published, perKill, func(i int) string {
			switch {
			case i%100 == 7:
				return `{"do":["FAIL"],"ms":20}`
			case i%10 == 3:
				return `{"do":["RETRY","SUCCESS"],"ms":20}`
			}
			return `{"ms":20}`
		})
		goal := before + 1 + random.IntN(perKill/2)
		eventually(t, 30*time.Second, "jobs run", func() bool { return len(l.readLedger()) >= goal })
		var pids []int
		eventually(t, 15*time.Second, "all replicas are there", func() bool {
			pids = hosts(t, addr)["play"].PIDs
			return len(pids) == 3
		})
		victim := random.IntN(len(pids))
		if err := syscall.Kill(pids[victim], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitDeath(t, pids[victim:victim+1], 2*time.Second)
		others := slices.Delete(slices.Clone(pids), victim, victim+1)
		runsBefore := len(l.readLedger())
		eventually(t, 10*time.Second, "the others go on", func() bool {
			h := holds(t, l.client, "play")
			return len(l.readLedger()) > runsBefore || h.waiting() == 0
		})
		for _, pid := range others {
			if !alive(pid) {
				t.Errorf("when %d was killed, the replica with pid %d ended as well:\n%s", pids[victim], pid, p.stderr.tail())
			}
		}
		conserve(t, published, holds(t, l.client, "play"), l.readLedger)
	}
	l.awaitEmpty("play", 2*time.Minute)
	eventually(t, 15*time.Second, "the killed replicas are counted as restarts", func() bool {
		return hosts(t, addr)["play"].Restarts == kills
	})
	p.stop(15 * time.Second)

	h := holds(t, l.client, "play")
	duplicates := conserve(t, published, h, l.readLedger)
	if limit := kills * maxInFlight; duplicates > limit {
		t.Errorf("%d duplicates after %d kills, at most %d were in flight", duplicates, kills, limit)
	}
	t.Logf("%d jobs, %d kills, %d duplicates", len(published), kills, duplicates)
	if len(h.processing) > 0 || len(h.dead) != len(published)/100 {
		t.Errorf("%d jobs in processing lists, %d dead letters, want 0 and %d", len(h.processing), len(h.dead), len(published)/100)
	}
}

func TestB50_AJobThatKillsItsReplicaStopsAloneAndTheHostGoesOn(t *testing.T) {
	t.Parallel()
	const crashLimit = 3
	l := newIsolated(t, "2")
	published := push(t, l.client, "play", "play.job", 20, func(i int) string {
		if i == 9 {
			return `{"do":["KILL"]}`
		}
		return `{"ms":300}`
	})
	p, addr := l.startIsolated()
	eventually(t, 2*time.Minute, "19 innocents succeeded and the killer is a dead letter", func() bool {
		return len(results(l.readLedger(), "SUCCESS")) == 19 && len(holds(t, l.client, "play").dead) == 1
	})
	l.awaitEmpty("play", 10*time.Second)
	restarts := hosts(t, addr)["play"].Restarts
	p.stop(10 * time.Second)
	sameIDs(t, "dead letters", holds(t, l.client, "play").dead, published[9:10])
	if reason := l.deadReason("play"); reason != "crashed" {
		t.Errorf("the killer's dead letter has reason %q", reason)
	}
	if runs := results(l.readLedger(), "KILL")[published[9]]; runs > crashLimit+3 || restarts != runs {
		t.Errorf("the killer ran %d times (at most %d are allowed), its replicas were restarted %d times", runs, crashLimit+3, restarts)
	}
}

func TestAJobPastTheMemoryLimitTakesDownOnlyItsOwnReplica(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ limit, hoard, says string }{
		"2 GB at once":     {"512MiB", `{"do":["HOARD"],"mb":2048}`, "out of memory"},
		"little by little": {"128MiB", `{"do":["HOARD"]}`, "memory_limit of 128 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newIsolated(t, "2", "memory_limit: "+c.limit)
			p, addr := l.startIsolated()
			before := hosts(t, addr)["play"].PIDs
			ids := l.pushMore(nil, 1, func(int) string { return c.hoard })
			var after []int
			eventually(t, 20*time.Second, "its replica has ended", func() bool {
				after = hosts(t, addr)["play"].PIDs
				return hosts(t, addr)["play"].Restarts >= 1
			})
			if !slices.ContainsFunc(before, func(pid int) bool { return slices.Contains(after, pid) }) {
				t.Errorf("replicas before %v, after %v: none stayed", before, after)
			}
			ids = l.pushMore(ids, 100, func(int) string { return `{"ms":5}` })
			eventually(t, time.Minute, "everything else has run and the hoarder is a dead letter", func() bool {
				return len(results(l.readLedger(), "SUCCESS")) == 100 && len(holds(t, l.client, "play").dead) == 1
			})
			l.awaitEmpty("play", 20*time.Second)
			p.stop(15 * time.Second)
			sameIDs(t, "dead letters", holds(t, l.client, "play").dead, ids[:1])
			if !strings.Contains(p.stderr.String(), c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, p.stderr.tail())
			}
		})
	}
}

func TestChildrenEndWithTheirParentAndGiveTheirJobsBack(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "2")
	published := push(t, l.client, "play", "play.job", 40, func(int) string { return `{"ms":60000}` })
	p, addr := l.startIsolated()
	eventually(t, 10*time.Second, "jobs run", func() bool { return hosts(t, addr)["play"].InFlight == 16 })
	pids := hosts(t, addr)["play"].PIDs
	p.kill()
	awaitDeath(t, pids, 5*time.Second)
	h := holds(t, l.client, "play")
	sameIDs(t, "jobs that are ready again", h.ready, published)
	for _, job := range l.client.LRange(t.Context(), "dq:ready:{play}", 0, -1).Val() {
		if !strings.Contains(job, `"attempt":1,`) || strings.Contains(job, "crashes") {
			t.Errorf("a job was charged: %s", job)
		}
	}
}

func TestAStopReachesChildrenAndASecondSignalEndsThemAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("soft", func(t *testing.T) {
		t.Parallel()
		l := newIsolated(t, "2")
		push(t, l.client, "play", "play.job", 500, func(int) string { return `{"ms":50}` })
		p, addr := l.startIsolated()
		eventually(t, 10*time.Second, "jobs run", func() bool { return len(l.readLedger()) > 50 })
		pids := hosts(t, addr)["play"].PIDs
		p.stop(5 * time.Second)
		if slices.ContainsFunc(pids, alive) {
			t.Error("a child outlived its host")
		}
		runs := l.readLedger()
		h := holds(t, l.client, "play")
		if len(h.processing) != 0 || len(h.ready)+len(results(runs, "SUCCESS")) != 500 || len(results(runs, "CANCELLED")) != 0 {
			t.Errorf("%d ready, %d in processing, %d done, %d cancelled", len(h.ready), len(h.processing), len(results(runs, "SUCCESS")), len(results(runs, "CANCELLED")))
		}
	})
	t.Run("hard", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, strings.NewReplacer("REPLICAS", "1", "handler_timeout: 2s", "handler_timeout: 60s\n    isolation: os").Replace(adminConfig))
		published := push(t, l.client, "play", "play.job", 1, func(int) string { return `{"do":["HANG"]}` })
		p, addr := l.startIsolated()
		eventually(t, 10*time.Second, "the handler runs", func() bool { return len(l.readLedger()) == 1 })
		pids := hosts(t, addr)["play"].PIDs
		p.signal(syscall.SIGTERM)
		<-time.After(time.Second)
		if p.gone() {
			t.Fatalf("the host did not wait for the handler:\n%s", p.stderr.tail())
		}
		p.signal(syscall.SIGTERM)
		if code := p.wait(time.Second); code != 143 {
			t.Errorf("exit code %d, want 143", code)
		}
		awaitDeath(t, pids, 3*time.Second)
		h := holds(t, l.client, "play")
		sameIDs(t, "jobs left with the broker", slices.Concat(h.ready, h.processing), published)
	})
}

func TestB49_ASignalAtAnyMomentOfTheStartEndsAHostWithChildren(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "2")
	push(t, l.client, "play", "play.job", 200, func(int) string { return `{"ms":20}` })
	for delay := time.Duration(0); delay <= 500*time.Millisecond; delay += 50 * time.Millisecond {
		p := l.start(binaries.worker, nil, "run", "--process=play")
		<-time.After(delay)
		p.signal(syscall.SIGTERM)
		if code := p.wait(3 * time.Second); code != 0 && code != -1 {
			t.Errorf("SIGTERM after %s: exit code %d:\n%s", delay, code, p.stderr.tail())
		}
		if h := holds(t, l.client, "play"); len(h.processing) > 0 {
			t.Errorf("SIGTERM after %s: %d jobs left in flight", delay, len(h.processing))
		}
	}
}

func TestWhatAReplicaPrintsIsTaggedAndItsNumbersReachTheHost(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "2")
	push(t, l.client, "play", "play.job", 30, func(i int) string {
		if i == 3 {
			return `{"do":["PRINT"]}`
		}
		return `{"ms":20}`
	})
	p, addr := l.startIsolated()
	eventually(t, 10*time.Second, "all jobs are in the metrics", func() bool {
		_, body := get(addr, "/metrics")
		return strings.Contains(body, `consumer_jobs_total{outcome="success",process="play",type="play.*"} 30`) &&
			strings.Contains(body, `consumer_job_duration_seconds_count{process="play",type="play.*"} 30`) &&
			strings.Contains(body, `consumer_process_up{process="play"} 1`)
	})
	p.stop(10 * time.Second)
	var tagged struct {
		Msg, Process, Stream, Line string
		Replica                    *int
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a log line is no JSON: %s", line)
		}
		if strings.Contains(line, "a line of job") {
			if err := json.Unmarshal([]byte(line), &tagged); err != nil {
				t.Fatal(err)
			}
		}
	}
	if tagged.Msg != "child.output" || tagged.Process != "play" || tagged.Stream != "stdout" || tagged.Replica == nil || tagged.Line != "a line of job play-000003" {
		t.Errorf("what the handler printed became %+v", tagged)
	}
}

func TestReplicasAreRecycledAfterTheirJobs(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "1", "recycle: {jobs: 50}")
	published := push(t, l.client, "play", "play.job", 300, func(int) string { return `{"ms":20}` })
	p, addr := l.startIsolated()
	l.awaitEmpty("play", time.Minute)
	if h := hosts(t, addr)["play"]; h.Restarts != 0 {
		t.Errorf("recycling counts as %d crashes", h.Restarts)
	}
	p.stop(10 * time.Second)
	perPID := map[int]int{}
	for _, r := range l.readLedger() {
		perPID[r.PID]++
	}
	// A child runs on until its parent has counted: about a tenth of a second.
	if n := len(perPID); n < 3 || n > 6 {
		t.Errorf("300 jobs with recycle: {jobs: 50} were run by %d children: %v", n, slices.Collect(maps.Values(perPID)))
	}
	if duplicates := conserve(t, published, holds(t, l.client, "play"), l.readLedger); duplicates != 0 {
		t.Errorf("%d jobs ran twice", duplicates)
	}
}

func TestAReplicaThatCrashesWithoutAJobStopsItsProcess(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "1", "restart: {initial: 1ms, max: 10ms, limit: 2}")
	p, addr := l.startIsolated()
	for range 3 {
		var pids []int
		eventually(t, 10*time.Second, "the replica is ready", func() bool {
			h := hosts(t, addr)["play"]
			pids = h.PIDs
			return h.Ready && len(pids) == 1
		})
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitDeath(t, pids, 2*time.Second)
	}
	if code := p.wait(10 * time.Second); code != 1 || !strings.Contains(p.stderr.String(), "3 crashes in a row") {
		t.Errorf("exit code %d:\n%s", code, p.stderr.tail())
	}
}

func TestStuckHandlersCostOnlyTheirReplica(t *testing.T) {
	t.Parallel()
	l := newLab(t, strings.NewReplacer("REPLICAS", "1", "handler_timeout: 2s", "handler_timeout: 300ms\n    isolation: os\n    max_stuck: 2").Replace(adminConfig))
	p, addr := l.startIsolated()
	ids := l.pushMore(nil, 20, func(i int) string {
		if i < 2 {
			return `{"do":["HANG","SUCCESS"]}`
		}
		return `{"ms":5}`
	})
	eventually(t, 30*time.Second, "all jobs succeeded, the stuck ones in another process", func() bool {
		return len(results(l.readLedger(), "SUCCESS")) == len(ids)
	})
	l.awaitEmpty("play", 10*time.Second)
	if h := hosts(t, addr)["play"]; h.State == "failed" {
		t.Errorf("the process is %+v", h)
	}
	if code, body := get(addr, "/livez"); code != http.StatusOK {
		t.Errorf("/livez asks for a restart of the whole host: %s", body)
	}
	p.stop(10 * time.Second)
}

func TestAReplicaUsesTheEmbeddedBrokerOfItsHost(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "2")
	p := l.start(binaries.worker, nil, "run", "--all", "--embedded")
	addr := p.adminAddr()
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)
	if pids := hosts(t, addr)["play"].PIDs; len(pids) != 2 {
		t.Errorf("child processes %v", pids)
	}
	p.stop(10 * time.Second)
}

func TestAReplicaIsNoVerbForPeople(t *testing.T) {
	t.Parallel()
	l := newIsolated(t, "1")
	code, _, stderr := l.run(binaries.worker, "replica", "--process=play", "--replica="+strconv.Itoa(os.Getpid()))
	if code != 2 || !strings.Contains(stderr, "use run") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
