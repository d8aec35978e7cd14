package core

import "slices"

// lane holds back the jobs of one order key while an earlier one runs.
type lane struct {
	key     string
	waiting []*task
}

// orderKey is what must not be overtaken; "" = nothing.
func (e *Engine) orderKey(t *task) string {
	switch e.cfg.Binding.Ordering {
	case OrderingKey:
		if t.d.Key != "" {
			return string(t.d.Lane) + "\x00" + t.d.Key
		}
		if key := t.job.Meta.PartitionKey(); key != "" {
			return string(t.d.Lane) + "\x00" + key
		}
		return ""
	case OrderingPartition:
		return "lane\x00" + string(t.d.Lane)
	case OrderingQueue:
		return "queue"
	}
	return ""
}

// enterLane takes the lane of key for t, or queues t behind the one that has it.
func (e *Engine) enterLane(t *task, key string) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[key]
	if l == nil {
		l = &lane{key: key}
		e.lanes[key] = l
		t.lane = l
		return true
	}
	t.lane = l
	l.waiting = append(l.waiting, t)
	return false
}

// reopen lets the next job of a lane run, or forgets an empty lane.
func (e *Engine) reopen(l *lane) {
	e.mu.Lock()
	var next *task
	if len(l.waiting) == 0 {
		delete(e.lanes, l.key)
	} else {
		next = l.waiting[0] // before Delete moves the others down
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	e.mu.Unlock()
	if next != nil {
		e.queue.push(next)
	}
}

// drainLanes takes out everything that waits for its turn and keep does not want.
func (e *Engine) drainLanes(keep func(*task) bool) []*task {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*task
	for _, l := range e.lanes {
		kept := l.waiting[:0]
		for _, t := range l.waiting {
			if keep != nil && keep(t) {
				kept = append(kept, t)
			} else {
				t.lane = nil // it never had the lane
				out = append(out, t)
			}
		}
		clear(l.waiting[len(kept):])
		l.waiting = kept
	}
	return out
}
