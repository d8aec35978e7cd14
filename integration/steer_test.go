package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goconsumer/consumer/cmd/consumer/cli"
	"github.com/goconsumer/consumer/deadletter"
)

const reloadConfig = `
transports:
  redis: {url: "REDIS"}
defaults:
  transport: redis
  types: ["play.*"]
  concurrency: 4
  redis: {lease: 2s, delay_poll: 100ms, sweep: 500ms}
processes:
  steady: {queue: steady}
  edited: {queue: edited, concurrency: EDITED}
  apart: {queue: apart, isolation: os}
  logs: {queue: logs, types: ["x.*"]}
handlers:
  x.y: HANDLER
admin: {listen: "127.0.0.1:0"}
EXTRA
`

// entry is a log line of a host.
type entry struct {
	Msg, Process, Fault         string
	Restarted, Started, Stopped []string
}

// entries are the log lines with one of the messages.
func (p *program) entries(messages ...string) []entry {
	p.t.Helper()
	var found []entry
	for line := range strings.Lines(p.stderr.String()) {
		var e entry
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &e) == nil && slices.Contains(messages, e.Msg) {
			found = append(found, e)
		}
	}
	return found
}

func TestReloadsUnderLoadRestartOnlyWhatChangedAndLoseNothing(t *testing.T) {
	t.Parallel()
	const reloads, invalid, handler, added, removed = 30, 7, 11, 15, 19
	l := newLab(t, reloadConfig)
	write := func(edited, handler, extra string) {
		l.configure(strings.NewReplacer("REDIS", l.server.URL(), "EDITED", edited, "HANDLER", handler, "EXTRA", extra).Replace(reloadConfig))
	}
	write("4", "{log: {}}", "")
	queues := []string{"steady", "edited", "apart"}
	published := map[string][]string{}
	for _, queue := range queues {
		published[queue] = push(t, l.client, queue, "play.job", 4000, func(int) string { return `{"ms":10}` })
	}
	p := l.start(binaries.worker, nil, "run", "--all")
	addr := p.adminAddr()
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)
	child := hosts(t, addr)["apart"].PIDs

	edited, handlers, extra := 4, "{log: {}}", ""
	for i := range reloads {
		var want entry
		switch i {
		case invalid:
			l.configure("processes: {steady: {queue: other, concurency: 3}}\n")
		case handler:
			handlers = `{exec: {command: ["true"]}}`
			want.Restarted = []string{"logs"}
		case added:
			extra = "# late is hosted"
			want.Started = []string{"late"}
		case removed:
			extra = ""
			want.Stopped = []string{"late"}
		default:
			edited = 4 + (edited+1)%4
			want.Restarted = []string{"edited"}
		}
		if i != invalid {
			write(fmt.Sprint(edited), handlers, extra)
		}
		if extra != "" {
			l.insertProcess("  late: {queue: late}")
		}
		p.signal(syscall.SIGHUP)
		var all []entry
		eventually(t, 10*time.Second, fmt.Sprintf("the host answers SIGHUP %d", i), func() bool {
			all = p.entries("config.reloaded", "config.refused")
			return len(all) == i+1
		})
		got := all[i]
		if got.Msg == "config.refused" != (i == invalid) || !slices.Equal(got.Restarted, want.Restarted) ||
			!slices.Equal(got.Started, want.Started) || !slices.Equal(got.Stopped, want.Stopped) {
			t.Errorf("SIGHUP %d gave %+v, want %+v", i, got, want)
		}
	}
	if faults := p.entries("config.fault"); len(faults) == 0 || !slices.ContainsFunc(faults, func(e entry) bool { return strings.Contains(e.Fault, `:1: unknown key "concurency"`) }) {
		t.Errorf("the faults of the bad file: %+v", faults)
	}
	for _, queue := range queues {
		l.awaitEmpty(queue, time.Minute)
	}
	ready := map[string]int{}
	for _, e := range p.entries("process.ready") {
		ready[e.Process]++
	}
	if ready["steady"] != 1 || ready["apart"] != 1 || ready["logs"] != 2 || ready["late"] != 1 || ready["edited"] != reloads-4+1 {
		t.Errorf("how often each process became ready: %v", ready)
	}
	if now := hosts(t, addr)["apart"].PIDs; !slices.Equal(now, child) {
		t.Errorf("the child process %v became %v", child, now)
	}
	p.stop(15 * time.Second)

	// Ids have their queue in them.
	done := results(l.readLedger(), "SUCCESS")
	for _, queue := range queues {
		for _, id := range published[queue] {
			if done[id] != 1 {
				t.Fatalf("job %s ran %d times", id, done[id])
			}
		}
	}
	if cancelled := results(l.readLedger(), "CANCELLED"); len(cancelled) != 0 {
		t.Errorf("%d jobs were cancelled", len(cancelled))
	}
}

// insertProcess adds a line to the config's processes.
func (l *lab) insertProcess(line string) {
	l.t.Helper()
	l.configure(strings.Replace(l.readConfig(), "processes:\n", "processes:\n"+line+"\n", 1))
}

func TestPauseReachesEveryHostOfAQueue(t *testing.T) {
	t.Parallel()
	l := newAdmin(t)
	first := l.start(binaries.worker, nil, "run", "--all")
	second := l.start(binaries.worker, nil, "run", "--all")
	addrs := []string{first.adminAddr(), second.adminAddr()}
	for _, addr := range addrs {
		awaitReadiness(t, addr, http.StatusOK, 10*time.Second)
	}
	all := func(paused bool) func() bool {
		return func() bool {
			for _, addr := range addrs {
				if h := hosts(t, addr)["play"]; h.Paused != paused || !h.Ready {
					return false
				}
			}
			return true
		}
	}
	if code, out, stderr := l.run(binaries.worker, "pause", "--process=play"); code != 0 || !strings.Contains(out, "play: paused") {
		t.Fatalf("pause: %d %s%s", code, out, stderr)
	}
	eventually(t, 3*time.Second, "both hosts say that they are paused, and ready", all(true))
	push(t, l.client, "play", "play.job", 50, func(int) string { return "{}" })
	third := l.start(binaries.worker, nil, "run", "--all") // paused from the start
	addrs = append(addrs, third.adminAddr())
	eventually(t, 10*time.Second, "the third as well", all(true))
	code, out, _ := l.run(binaries.worker, "stats", "-o", "json")
	var stats []struct {
		Ready  int
		Paused bool
	}
	if err := json.Unmarshal([]byte(out), &stats); err != nil || code != 0 || len(stats) != 1 || !stats[0].Paused || stats[0].Ready != 50 {
		t.Errorf("stats: %d %s", code, out)
	}
	if n := len(l.readLedger()); n != 0 {
		t.Errorf("%d jobs ran while the queue was paused", n)
	}
	if code, _, stderr := l.run(binaries.worker, "resume", "--process=play"); code != 0 {
		t.Fatalf("resume: %d %s", code, stderr)
	}
	eventually(t, 3*time.Second, "all hosts work again", all(false))
	l.awaitEmpty("play", 10*time.Second)
	for _, p := range []*program{first, second, third} {
		p.stop(10 * time.Second)
	}
	if n := len(results(l.readLedger(), "SUCCESS")); n != 50 {
		t.Errorf("%d jobs ran, want 50", n)
	}
}

func TestAProcessIsStoppedStartedAndRestartedByName(t *testing.T) {
	t.Parallel()
	const token = "a-token-for-tests"
	config := strings.ReplaceAll(playConfig, "REPLICAS", "1") +
		"  other: {transport: redis, queue: other}\n" +
		fmt.Sprintf("admin: {listen: %q, token: %q}\n", freeAddress(t), token)
	l := newLab(t, config)
	verb := func(args ...string) string {
		t.Helper()
		code, out, stderr := l.run(binaries.worker, args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		return out
	}
	if code, _, stderr := l.run(binaries.worker, "stop", "--process=play"); code != 1 || !strings.Contains(stderr, "no host answers at") {
		t.Errorf("without a host: %d %s", code, stderr)
	}
	if code, _, stderr := l.run(binaries.worker, "stop", "--process=nobody"); code != 2 || !strings.Contains(stderr, "play, other") {
		t.Errorf("an unknown name: %d %s", code, stderr)
	}
	p := l.start(binaries.worker, nil, "run", "--process=play")
	awaitReadiness(t, p.adminAddr(), http.StatusOK, 10*time.Second)

	push(t, l.client, "play", "play.job", 200, func(int) string { return `{"ms":20}` })
	eventually(t, 10*time.Second, "jobs run", func() bool { return len(l.readLedger()) > 20 })
	if out := verb("stop", "--process=play"); !strings.HasPrefix(out, "play: stopped (host at 127.0.0.1:") {
		t.Errorf("stop says %q", out)
	}
	ran := len(l.readLedger())
	if h := holds(t, l.client, "play"); len(h.processing) != 0 || len(h.ready)+ran != 200 {
		t.Errorf("stopped: %d ready, %d in processing, %d ran", len(h.ready), len(h.processing), ran)
	}
	verb("start", "--process=play", "-o", "json")
	verb("restart", "--process=play")
	l.awaitEmpty("play", 20*time.Second)
	if code, _, stderr := l.run(binaries.worker, "restart", "--process=other"); code != 1 || !strings.Contains(stderr, "no process named other") {
		t.Errorf("a process of the config that is not hosted: %d %s", code, stderr)
	}
	request, err := http.NewRequest(http.MethodPost, "http://"+p.adminAddr()+"/api/v1/processes/play/stop", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %s", response.Status)
	}
	p.stop(10 * time.Second)
	done := results(l.readLedger(), "SUCCESS")
	if len(done) != 200 || len(l.readLedger()) != 200 {
		t.Errorf("%d jobs succeeded in %d runs, want 200 in 200", len(done), len(l.readLedger()))
	}
}

func TestTheInspectorShowsInGoWhatTheCommandLineShows(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	push(t, l.client, "play", "play.job", 30, func(i int) string {
		if i < 10 {
			return `{"do":["FAIL"]}`
		}
		return "{}"
	})
	p := l.start(binaries.worker, nil, "run", "--all")
	l.awaitEmpty("play", 10*time.Second)

	inspector, err := cli.OpenInspector(l.config)
	if err != nil {
		t.Fatal(err)
	}
	defer inspector.Close()
	ctx := t.Context()
	if err := inspector.Pause(ctx, "play"); err != nil {
		t.Fatal(err)
	}
	push(t, l.client, "play", "play.later", 5, func(int) string { return "{}" })
	stats, err := inspector.Stats(ctx, "play")
	if err != nil || *stats.Dead != 10 || !*stats.Paused {
		t.Errorf("stats %+v, %v", stats, err)
	}
	store, err := inspector.DeadLetters(ctx, "play")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if err := deadletter.Select(ctx, store, deadletter.Filter{Reason: "failed"}, func(*deadletter.Entry) error { seen++; return nil }); err != nil || seen != 10 {
		t.Errorf("%d dead letters seen, %v", seen, err)
	}
	report, err := inspector.Replay(ctx, "play", "play", deadletter.Filter{Limit: 3}, deadletter.ReplayOptions{})
	if err != nil || report.Replayed != 3 {
		t.Errorf("replay: %+v, %v", report, err)
	}
	if specs := inspector.Processes(); len(specs) != 1 || specs[0].Name != "play" || specs[0].Concurrency != 8 {
		t.Errorf("processes: %+v", specs)
	}
	if err := inspector.Resume(ctx, "play"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the replayed jobs have failed again", func() bool {
		h := holds(t, l.client, "play")
		return h.waiting() == 0 && len(h.dead) == 10
	})
	p.stop(10 * time.Second)
}
