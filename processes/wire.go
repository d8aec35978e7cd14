package processes

import (
	"encoding/gob"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Parent and child OS process talk in gob streams over two pipes: orders come to
// the child's standard input, reports leave by a descriptor of its own. Both ends
// are the same program file, so the format may change with every version. The end
// of the orders means that the parent is gone.

// op is what a child is told to do.
type op uint8

const (
	opSetup  op = iota + 1 // always first: what the child's program needs to begin
	opPause                // this replica
	opResume               //
	opStop                 // softly
	opAbort                // at once
)

type order struct {
	Op    op
	Setup []byte // opSetup
}

// report is what a child tells; nil parts say nothing new.
type report struct {
	Busy   bool // sent before the first handler starts after an idle Status
	Status *childStatus
	Events []childEvent
	End    *childEnd // the last report
}

type childStatus struct {
	Ready    bool
	Paused   bool
	Reason   string
	Running  int
	Stuck    int
	Finished int64
}

// childEvent is the part of a core.Event that counters need.
type childEvent struct {
	Kind    core.EventKind
	Type    string
	Outcome core.Outcome
	Reason  string
	Cause   string
	Cost    time.Duration
	Wait    time.Duration
	N       int
}

// childEnd is why a child ended.
type childEnd struct {
	Setup     bool // no restart can help
	Text      string
	Unsettled []string // ids of jobs that the stop left unsettled
	Left      bool     // Unsettled is set, possibly without ids
}

func newChildEnd(err error) *childEnd {
	if err == nil {
		return &childEnd{}
	}
	end := &childEnd{Text: err.Error()}
	_, end.Setup = errors.AsType[*core.SetupError](err)
	if unsettled, ok := errors.AsType[*core.UnsettledError](err); ok {
		end.Unsettled, end.Left = unsettled.IDs, true
		end.Text = unsettled.Err.Error()
	}
	return end
}

// err is the error that the child's engine would have returned here.
func (e *childEnd) err(process string) error {
	switch {
	case e.Text == "":
		return nil
	case e.Setup:
		return &core.SetupError{Sentence: e.Text}
	case e.Left:
		return &core.UnsettledError{Process: process, IDs: e.Unsettled, Err: errors.New(e.Text)}
	}
	return errors.New(e.Text)
}

// sender writes values of one type; it is safe for concurrent use.
type sender[T any] struct {
	mu  sync.Mutex
	enc *gob.Encoder
}

func newSender[T any](w io.Writer) *sender[T] { return &sender[T]{enc: gob.NewEncoder(w)} }

func (s *sender[T]) send(v *T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enc.Encode(v)
}
