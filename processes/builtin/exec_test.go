//go:build unix

package builtin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes/builtin"
)

func shell(script string) core.Handler { return new(builtin.Commands).Exec("/bin/sh", "-c", script) }

func TestExecExitsDecide(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		script string
		want   answer
	}{
		"0":                        {"exit 0", answer{core.StatusSuccess, policy, ""}},
		"1":                        {"exit 1", answer{core.StatusRetry, policy, "exit status 1"}},
		"65":                       {"echo >&2 no such order; exit 65", answer{core.StatusFail, policy, "no such order"}},
		"75":                       {"exit 75", answer{core.StatusRetry, policy, "exit status 75"}},
		"76":                       {"exit 76", answer{core.StatusDefer, policy, "exit status 76"}},
		"100":                      {"exit 100", answer{core.StatusDiscard, policy, "exit status 100"}},
		"255":                      {"exit 255", answer{core.StatusRetry, policy, "exit status 255"}},
		"a signal":                 {"kill -SEGV $$", answer{core.StatusRetry, policy, "signal: segmentation fault"}},
		"a signal after a word":    {`echo '{"status":"SUCCESS"}'; kill -KILL $$`, answer{core.StatusRetry, policy, "signal: killed"}},
		"the last line":            {`echo working; echo '{"status":"defer","error":"busy","retryAfterMs":250}'; echo; exit 1`, answer{core.StatusDefer, 250 * time.Millisecond, "busy"}},
		"only the last line":       {`echo '{"status":"FAIL"}'; echo done`, answer{core.StatusSuccess, policy, ""}},
		"a word without an error":  {`printf '{"status":"FAIL"}'`, answer{core.StatusFail, policy, "answered FAIL (exit status 0)"}},
		"a word beats stderr":      {`echo >&2 noise; echo '{"status":"RETRY","error":"why"}'`, answer{core.StatusRetry, policy, "why"}},
		"stdout that goes on":      {`head -c 300000 /dev/zero | tr '\0' x; echo; echo '{"status":"FAIL","error":"end"}'`, answer{core.StatusFail, policy, "end"}},
		"stdin that nobody reads":  {"exec 0<&-; exit 65", answer{core.StatusFail, policy, "exit status 65"}},
		"a grandchild that stays":  {"sleep 30 & exit 100", answer{core.StatusDiscard, policy, "exit status 100"}},
		"bytes that are not UTF-8": {`printf 'caf\351' >&2; exit 65`, answer{core.StatusFail, policy, "caf?"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := decode(t, strings.Replace(envelope, `"e":[]`, `"e":"`+strings.Repeat("x", 300_000)+`"`, 1)) // more than a pipe holds
			check(t, shell(c.script)(t.Context(), job), c.want)
		})
	}
}

func TestExecKeepsTheTailOfStderr(t *testing.T) {
	t.Parallel()
	err := shell(`head -c 100000 /dev/zero | tr '\0' x >&2; echo >&2; echo the end >&2; exit 1`)(t.Context(), decode(t, envelope))
	if text := err.Error(); len(text) > 2048 || !strings.HasSuffix(text, "x\nthe end") {
		t.Errorf("%d bytes, ending in %q", len(text), text[max(0, len(text)-20):])
	}
}

func TestExecGivesTheEnvelopeAndTheJobsNames(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "got")
	job := decode(t, envelope)
	if err := shell(`cat > `+file+`; printf '|%s|%s|%s' "$JOB_ID" "$JOB_TYPE" "$JOB_ATTEMPT" >> `+file)(t.Context(), job); err != nil {
		t.Fatalf("exec: %v", err)
	}
	got, err := os.ReadFile(file)
	if want := envelope + "|job_1|order.paid|3"; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestExecACommandThatIsNotThereRetries(t *testing.T) {
	t.Parallel()
	r := core.ResultOf(new(builtin.Commands).Exec("/nowhere/command")(t.Context(), decode(t, envelope)))
	if r.Status != core.StatusRetry || !strings.HasPrefix(r.Err.Error(), "command did not start: ") {
		t.Errorf("got %v %v", r.Status, r.Err)
	}
}

func TestExecEndsTheWholeGroupWhenTimeIsOver(t *testing.T) {
	t.Parallel()
	timeOver := errors.New("time is over")
	cases := map[string]struct {
		script  string
		atLeast time.Duration
	}{
		"one that ends at TERM":   {`trap 'echo term > $DIR/end; exit 0' TERM; sleep 60 & echo $! > $DIR/pid; touch $DIR/up; wait`, 0},
		"one that does not":       {`trap '' TERM; echo $$ > $DIR/pid; touch $DIR/up; while :; do sleep 0.1; done`, builtin.KillAfter},
		"a grandchild that stays": {`(trap '' TERM; while :; do sleep 0.1; done) & echo $! > $DIR/pid; touch $DIR/up; wait`, builtin.KillAfter},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { done <- shell("DIR="+dir+"; "+c.script)(ctx, decode(t, envelope)) }()
			waitFor(t, func() bool { _, err := os.Stat(dir + "/up"); return err == nil })
			begin := time.Now()
			cancel(timeOver)
			err := <-done
			if r := core.ResultOf(err); r.Status != core.StatusRetry || !errors.Is(err, timeOver) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(begin); d < c.atLeast || d > c.atLeast+10*time.Second {
				t.Errorf("took %v", d)
			}
			text, err := os.ReadFile(dir + "/pid")
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			// A grandchild is reaped by init, which may take a moment.
			waitFor(t, func() bool { return !alive(pid) })
		})
	}
}

func TestKillEndsTheCommandsThatStillRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var commands builtin.Commands
	done := make(chan error, 2)
	for i := range 2 {
		handler := commands.Exec("/bin/sh", "-c", "trap '' TERM; touch "+dir+"/"+strconv.Itoa(i)+"; sleep 60 & wait; sleep 60")
		go func() { done <- handler(t.Context(), decode(t, envelope)) }()
	}
	waitFor(t, func() bool {
		_, first := os.Stat(dir + "/0")
		_, second := os.Stat(dir + "/1")
		return first == nil && second == nil
	})
	commands.Kill()
	for range 2 {
		check(t, <-done, answer{core.StatusRetry, policy, "signal: killed"})
	}
	err := commands.Exec("/bin/sh", "-c", "sleep 60")(t.Context(), decode(t, envelope))
	check(t, err, answer{core.StatusRetry, policy, "signal: killed"}) // too late
}

// alive tells whether a process runs: one that only waits to be reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("it never happened")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
