package integration

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// terminal is a program that runs on a terminal of its own.
type terminal struct {
	*program
	tty *os.File // the person's side
	own *os.File // the program's side, kept open to ask for its state
}

// startTerminal runs a binary on a terminal of this size. With a file its stdout
// is that file.
func (l *lab) startTerminal(rows, cols uint16, stdout *os.File, args ...string) *terminal {
	l.t.Helper()
	path, err := binaries.stock()
	if err != nil {
		l.t.Fatal(err)
	}
	tty, own, err := pty.Open()
	if err != nil {
		l.t.Fatal(err)
	}
	x := &terminal{program: &program{t: l.t, ended: make(chan struct{})}, tty: tty, own: own}
	x.resize(rows, cols)
	x.cmd = exec.Command(path, append([]string{"--config", l.config}, args...)...)
	x.cmd.Env = []string{"TERM=xterm"}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = own, own, own
	if stdout != nil {
		x.cmd.Stdout = stdout
	}
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // of fd 0
	if err := x.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&x.stdout, tty)
	}()
	go func() {
		_ = x.cmd.Wait()
		close(x.ended)
	}()
	l.t.Cleanup(func() {
		x.kill()
		own.Close()
		tty.Close()
		<-read
	})
	return x
}

func (x *terminal) resize(rows, cols uint16) {
	x.t.Helper()
	if err := pty.Setsize(x.tty, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.tty, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) shows(limit time.Duration, parts ...string) {
	x.t.Helper()
	for _, part := range parts {
		eventually(x.t, limit, "the terminal shows "+part, func() bool { return strings.Contains(x.stdout.String(), part) })
	}
}

// frame is what the last complete drawing shows.
func (x *terminal) frame() []string {
	frames := strings.Split(x.stdout.String(), "\x1b[H")
	for i := len(frames) - 1; i > 0; i-- {
		if text, _, complete := strings.Cut(frames[i], "\x1b[J"); complete {
			return strings.Split(strings.ReplaceAll(text, "\x1b[K", ""), "\r\n")
		}
	}
	return nil
}

func frameWidth(lines []string) int {
	width := 0
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	return width
}

func TestWatchedStatsAreALiveTableOnATerminal(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	push(t, l.client, "play", "play.job", 42, func(int) string { return `{}` })
	for name, quit := range map[string]func(*terminal){
		"q":       func(x *terminal) { x.press("q") },
		"Ctrl-C":  func(x *terminal) { x.press("\x03") },
		"SIGTERM": func(x *terminal) { x.signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lab{t: t, server: l.server, client: l.client, config: l.config, ledger: l.ledger}
			x := l.startTerminal(24, 150, nil, "stats", "--watch", "--interval=100ms")
			before, err := term.GetState(int(x.own.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			x.shows(10*time.Second, "\x1b[?1049h", "play", "42", "█")
			if lines := x.frame(); len(lines) > 24 || frameWidth(lines) > 150 {
				t.Errorf("a frame of %d lines, %d wide", len(lines), frameWidth(lines))
			}
			x.resize(5, 45)
			eventually(t, 10*time.Second, "the table fits the smaller terminal", func() bool {
				lines := x.frame()
				return len(lines) > 0 && len(lines) <= 5 && frameWidth(lines) <= 45 && strings.Contains(strings.Join(lines, "\n"), "42")
			})
			quit(x)
			if code := x.wait(5 * time.Second); code != 0 {
				t.Errorf("exit code %d:\n%s", code, x.stdout.tail())
			}
			x.shows(time.Second, "\x1b[?25h\x1b[?1049l") // the cursor and the screen of before
			after, err := term.GetState(int(x.own.Fd()))
			if err != nil || *after != *before {
				t.Errorf("the terminal is not as it was: %v", err)
			}
		})
	}
}

func TestWatchedStatsAreLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	push(t, l.client, "play", "play.job", 42, func(int) string { return `{}` })
	line := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ process=play transport=redis queue=play ready=42 delayed=0 in_flight=0 dead=0 oldest_seconds=\d+\.\d lag=- rate=- paused=false$`)
	object := regexp.MustCompile(`^\[\{"process":"play","transport":"redis","queue":"play","ready":42,.*"rate":null,"paused":false\}\]$`)
	for _, c := range []struct {
		args []string
		want *regexp.Regexp
	}{{nil, line}, {[]string{"-o", "json"}, object}} {
		p := l.start(binaries.stock, nil, append([]string{"stats", "--watch", "--interval=100ms"}, c.args...)...)
		eventually(t, 10*time.Second, "three looks", func() bool { return strings.Count(p.stdout.String(), "\n") >= 3 })
		p.signal(syscall.SIGINT)
		if code := p.wait(5 * time.Second); code != 0 || p.stderr.String() != "" {
			t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
		}
		for text := range strings.Lines(p.stdout.String()) {
			if !c.want.MatchString(strings.TrimSuffix(text, "\n")) {
				t.Errorf("a line is %q", text)
			}
		}
	}
}

func TestWatchedStatsTellTheRateOfARunningHost(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	p := l.start(binaries.stock, nil, "stats", "--watch", "--interval=200ms")
	eventually(t, 10*time.Second, "a first look", func() bool { return strings.Contains(p.stdout.String(), "ready=0") })
	push(t, l.client, "play", "play.job", 400, func(int) string { return `{"ms":20}` })
	worker := l.start(binaries.worker, nil, "run", "--process=play")
	rate := regexp.MustCompile(`rate=[1-9]`)
	eventually(t, 20*time.Second, "a rate", func() bool { return rate.MatchString(p.stdout.String()) })
	l.server.Kill()
	eventually(t, 20*time.Second, "numbers that nobody knows", func() bool { return strings.Contains(p.stdout.String(), "ready=- delayed=- in_flight=- dead=-") })
	if n := strings.Count(p.stderr.String(), "cannot be reached"); n != 1 {
		t.Errorf("the broker that is down is told of %d times:\n%s", n, p.stderr.tail())
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	worker.kill()
}

func TestPurgeAsksTheTerminal(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	bury(l, 3, func(int) string { return deadRecord(envelope("dead", "play.job", `{}`)) })
	for _, c := range []struct {
		keys string
		code int
		left int
	}{{"n\r", 1, 3}, {"\r", 1, 3}, {"\x04", 1, 3}, {"\x03", 130, 3}, {"yes\r", 0, 0}} {
		x := l.startTerminal(24, 80, nil, "dlq", "purge", "--process=play")
		x.shows(10*time.Second, "Remove 3 dead letters of process play for good? [y/N]")
		x.press(c.keys)
		if code := x.wait(5 * time.Second); code != c.code || len(l.dead()) != c.left {
			t.Errorf("%q: exit code %d, %d are left, want %d and %d:\n%s", c.keys, code, len(l.dead()), c.code, c.left, x.stdout.tail())
		}
	}
}

func TestDeadLetterVerbsShowABarOnATerminalOnly(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	bury(l, 40, func(i int) string {
		return deadRecord(envelope("dead-"+string(rune('a'+i%26)), "play.job", `{}`))
	})
	stdout, err := os.CreateTemp(t.TempDir(), "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	for _, c := range []struct{ verb, word string }{{"export", "40 exported"}, {"replay", "40 replayed"}} {
		x := l.startTerminal(24, 120, stdout, "dlq", c.verb, "--process=play")
		if code := x.wait(10 * time.Second); code != 0 {
			t.Fatalf("exit code %d: %s", code, x.stdout.tail())
		}
		x.shows(time.Second, "40 / 40", c.word)
	}
	text, err := os.ReadFile(stdout.Name())
	if err != nil || strings.Count(string(text), "\n") != 41 || strings.Contains(string(text), "\x1b") {
		t.Errorf("stdout: %v, %d lines:\n%s", err, strings.Count(string(text), "\n"), text)
	}
}
