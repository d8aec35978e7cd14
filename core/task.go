package core

import (
	"sync"
	"sync/atomic"
	"time"
)

// task is one delivery on its way through the engine.
//
// Owners: the fetch goroutine until it is queued; one worker while it runs; the
// settler afterwards. state decides between a worker whose handler returns and
// the timer or stop that gives the handler up: whoever moves it away from
// taskRunning decides about the job, the other one's word is dropped.
type task struct {
	d         *Delivery
	job       *Job
	given     Job // the handler's own copy: what it writes there changes nothing here
	handler   Handler
	pattern   string // metric label: the pattern that matched
	lane      *lane
	loss      *lossGroup
	publisher *Publisher

	ran     chan struct{} // suspects only: closed by endAlone
	ranOnce sync.Once
	refund  []byte // the uncharged body of a charged suspect

	ctx      runContext
	state    atomic.Int32
	worker   *worker       // that runs it, or gave it up
	deadline atomic.Int64  // unix ns; 0 = no time limit; written under worker.timing
	limit    time.Duration // under worker.timing
	timedOut bool          // under worker.timing

	started time.Time
	cost    time.Duration

	decision   Decision
	tries      int  // failed settlements
	standsBy   bool // a settlement failed: not counted by the gate; under the engine's mu
	deadStored bool // the dead letter is in its sink
}

const (
	taskQueued int32 = iota
	taskRunning
	taskReturned  // the handler's word counts
	taskAbandoned // the handler was given up; its word is dropped
)

// extend moves the deadline, see Extend.
func (t *task) extend(d time.Duration) bool {
	w := t.worker
	w.timing.Lock()
	defer w.timing.Unlock()
	if t.limit == 0 || t.timedOut || t.state.Load() != taskRunning {
		return false
	}
	t.limit = d
	t.expireLocked(time.Now().Add(d))
	return true
}

// expireLocked sets the deadline; worker.timing is held.
func (t *task) expireLocked(at time.Time) {
	t.deadline.Store(at.UnixNano())
	t.worker.alarm.set(at)
}

// endAlone lets others start after a suspect: it has left the engine, or only its
// settlement is left to do.
func (t *task) endAlone() {
	if t.ran != nil {
		t.ranOnce.Do(func() { close(t.ran) })
	}
}

// isLost says whether the delivery stopped being ours.
func (t *task) isLost() bool {
	select {
	case <-t.d.Lost: // a nil channel never is
		return true
	default:
		return false
	}
}

// delayLeft is what is left of the decision's delay, which counts from the end of
// the run and not from its settlement.
func (t *task) delayLeft() time.Duration {
	if t.decision.Delay == 0 || t.cost == 0 {
		return t.decision.Delay
	}
	return max(t.decision.Delay-time.Since(t.started.Add(t.cost)), 0)
}

// id names the job for people; a body that is no envelope has only its position.
func (t *task) id() string {
	if t.job != nil {
		return t.job.ID
	}
	if t.d.Ref != "" {
		return t.d.Ref
	}
	return "(no id)"
}

// taskQueue hands tasks from the fetch goroutine to the workers, first in first
// out. Idle workers are woken one after the other, each by the one before it when
// there is still something to do: where jobs take microseconds two awake workers
// do them all, and the others are not woken for nothing; where jobs wait, the
// whole chain is awake within microseconds.
type taskQueue struct {
	mu     sync.Mutex
	some   sync.Cond
	items  []*task
	head   int
	idle   int  // workers that wait
	waking bool // one of them was woken and has not come yet
	closed bool
}

func newTaskQueue() *taskQueue {
	q := &taskQueue{}
	q.some.L = &q.mu
	return q
}

func (q *taskQueue) push(tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head > 0 && len(q.items)+len(tasks) > cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, tasks...)
	q.wakeLocked()
}

// wakeLocked wakes one more worker if there is a task and a worker for it.
func (q *taskQueue) wakeLocked() {
	if q.head < len(q.items) && q.idle > 0 && !q.waking {
		q.waking = true
		q.some.Signal()
	}
}

// pop waits for a task and marks it running; nil when the queue is closed.
func (q *taskQueue) pop() *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.items) {
		if q.closed {
			return nil
		}
		q.idle++
		q.some.Wait()
		q.idle--
		q.waking = false
	}
	t := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	q.wakeLocked()
	t.state.Store(taskRunning)
	return t
}

// drain takes out everything that no worker has taken and keep does not want.
func (q *taskQueue) drain(keep func(*task) bool) []*task {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*task
	kept := make([]*task, 0, len(q.items)-q.head)
	for _, t := range q.items[q.head:] {
		if keep != nil && keep(t) {
			kept = append(kept, t)
		} else {
			out = append(out, t)
		}
	}
	q.items, q.head = kept, 0
	return out
}

func (q *taskQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}
