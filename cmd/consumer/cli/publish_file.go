package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// lines is a checked file of jobs, one a line, that can be read again: stdin is
// copied to a temporary file first, so memory does not grow with it.
type lines struct {
	file  *os.File
	total int
	temp  bool
}

// openLines checks every line of the file (- is stdin).
func openLines(ctx context.Context, name string, stdin io.Reader) (*lines, error) {
	l := &lines{}
	var err error
	if name == "-" {
		l.temp = true
		l.file, err = spool(ctx, stdin)
	} else {
		l.file, err = os.Open(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	if err := l.check(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// spool copies r to a temporary file until its end or the end of ctx.
func spool(ctx context.Context, r io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "consumer-publish-*.ndjson")
	if err != nil {
		return nil, err
	}
	copied := make(chan error, 1)
	go func() { // it stays behind only when the program is about to end
		_, err := io.Copy(file, r)
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

func (l *lines) close() {
	_ = l.file.Close()
	if l.temp {
		_ = os.Remove(l.file.Name())
	}
}

// check reads every line and counts the jobs. The error is one sentence with the
// bad lines, the first few of them by number.
func (l *lines) check() error {
	var named []string
	bad := 0
	for _, err := range l.jobs() {
		if err == nil {
			l.total++
			continue
		}
		if _, ok := errors.AsType[*lineError](err); !ok {
			return err
		}
		if bad++; bad <= 10 {
			named = append(named, err.Error())
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%s: nothing was sent, correct %s and publish again", strings.Join(named, "; "), counted(bad, "line", "lines"))
}

// lineError is a line that is no job.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// jobs reads the file from its start. A bad line gives a *lineError and the next
// one is read; another error ends it. Blank lines hold no job.
func (l *lines) jobs() iter.Seq2[*core.Job, error] {
	return func(yield func(*core.Job, error) bool) {
		if _, err := l.file.Seek(0, io.SeekStart); err != nil {
			yield(nil, fmt.Errorf("read jobs: %w", err))
			return
		}
		reader := bufio.NewReaderSize(l.file, 64<<10)
		for n := 1; ; n++ {
			line, readErr := reader.ReadBytes('\n')
			if readErr != nil && readErr != io.EOF {
				yield(nil, fmt.Errorf("read jobs: %w", readErr))
				return
			}
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				job, err := jobOfLine(line)
				if err != nil {
					err = &lineError{n, err}
				}
				if !yield(job, err) {
					return
				}
			}
			if readErr == io.EOF {
				return
			}
		}
	}
}

// jobOfLine reads an envelope, or the job of a dead-letter record as a replay
// would send it.
func jobOfLine(line []byte) (*core.Job, error) {
	job, err := core.DecodeAny(line)
	if err != nil {
		entry := deadletter.Read(line)
		switch {
		case !isRecord(line):
			return nil, err // what is wrong with it as an envelope
		case entry.Err != nil:
			return nil, entry.Err
		}
		if job, err = deadletter.Revive(entry.Record.Job, time.Now()); err != nil {
			return nil, err
		}
	}
	if job.ID == "" {
		job.ID = core.NewID()
	}
	return job, nil
}

// isRecord says whether a line looks like a dead-letter record: it has a job.
func isRecord(line []byte) bool {
	var record map[string]json.RawMessage
	return json.Unmarshal(line, &record) == nil && record["job"] != nil
}
