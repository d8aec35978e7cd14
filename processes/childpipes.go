package processes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// childPipes are the parent's ends of the pipes to one child.
type childPipes struct {
	orders    *os.File // to its standard input
	reports   *os.File // its descriptor 3
	log       *os.File // its descriptor 4
	childEnds []*os.File
}

func openPipes(cmd *exec.Cmd) (p *childPipes, err error) {
	p = &childPipes{}
	pipe := func() (r, w *os.File) {
		var e error
		if r, w, e = os.Pipe(); e != nil {
			err = errors.Join(err, e)
		}
		return r, w
	}
	stdin, orders := pipe()
	reports, reportsEnd := pipe()
	log, logEnd := pipe()
	p.orders, p.reports, p.log, p.childEnds = orders, reports, log, []*os.File{stdin, reportsEnd, logEnd}
	if err != nil {
		p.closeAll()
		return nil, err
	}
	cmd.Stdin, cmd.ExtraFiles = stdin, []*os.File{reportsEnd, logEnd}
	return p, nil
}

// started closes what only the child needs, so that its end is the end of the
// pipes.
func (p *childPipes) started() {
	for _, f := range p.childEnds {
		_ = f.Close()
	}
}

func (p *childPipes) closeAll() {
	p.started()
	for _, f := range []*os.File{p.orders, p.reports, p.log} {
		_ = f.Close()
	}
}

// close lets the users of the pipes read what the child left and ends them.
func (p *childPipes) close(users *sync.WaitGroup) {
	_ = p.orders.Close()
	done := make(chan struct{})
	go func() {
		users.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(outputWait): // somebody else still holds an end
	}
	_ = p.reports.Close()
	_ = p.log.Close()
	<-done
}

// maxLine bounds one line of a child's output in the log; longer ones are split.
const maxLine = 8 << 10

// copyLines copies whole lines, one a Write, so that those of several writers do not
// mix.
func copyLines(w io.Writer, r io.Reader) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 && w != nil {
			_, _ = w.Write(line) // as with any log line
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// outputLog logs what a child prints, a line each: its own log lines come another
// way.
type outputLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	partial map[string][]byte // by stream
	reason  string
}

func newOutputLog(logger *slog.Logger) *outputLog {
	return &outputLog{logger: logger, partial: map[string][]byte{}}
}

// stream is a writer for stdout or stderr.
func (o *outputLog) stream(name string) io.Writer {
	return writerFunc(func(text []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		rest := append(o.partial[name], text...)
		for {
			line, next, ended := bytes.Cut(rest, []byte{'\n'})
			if !ended && len(line) < maxLine {
				break
			}
			if len(line) > maxLine {
				line, next = rest[:maxLine], rest[maxLine:]
			}
			o.line(name, string(line))
			rest = next
		}
		o.partial[name] = rest
	})
}

// line logs one line. mu is held.
func (o *outputLog) line(stream, text string) {
	text = strings.TrimRight(text, "\r")
	if o.reason == "" && strings.HasPrefix(text, "fatal error: ") { // the Go runtime's own words
		o.reason = text
	}
	level := slog.LevelInfo
	if stream == "stderr" { // a program's last words go there
		level = slog.LevelWarn
	}
	if text != "" {
		o.logger.Log(context.Background(), level, "child.output", "stream", stream, "line", MaskURL(text))
	}
}

// flush logs what ended without a line end.
func (o *outputLog) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, rest := range o.partial {
		o.line(name, string(rest))
	}
	clear(o.partial)
}

// fatal is the Go runtime's last word, if there was one.
func (o *outputLog) fatal() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reason
}

// writerFunc is an io.Writer that never fails.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
