package core

// health is what an engine's status is made of. Guarded by the engine's mu.
type health struct {
	source    Status // the source's own word
	receiving error  // the last Receive failed
	settling  error  // nothing gets settled
	last      Status // as announced
}

// Status is ready when the source is subscribed and fetching (or paused) and
// settlements get through.
func (e *Engine) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.statusLocked()
}

func (e *Engine) statusLocked() Status {
	h := &e.health
	notReady := func(reason string) Status { return Status{Reason: reason, Paused: e.pausedLocked()} }
	switch {
	case e.failure != nil:
		return notReady(e.failure.Error())
	case e.source == nil:
		return notReady("not subscribed yet to " + e.cfg.Binding.Queue)
	case e.stopping:
		return notReady("stopping")
	case h.settling != nil:
		return notReady("settlements on " + e.cfg.Binding.Queue + " do not get through: " + h.settling.Error())
	case h.receiving != nil:
		return notReady("fetching from " + e.cfg.Binding.Queue + " does not work: " + h.receiving.Error())
	case !h.source.Ready:
		return notReady(h.source.Reason)
	}
	return Status{Ready: true, Paused: e.pausedLocked()}
}

// pausedLocked says whether this engine was paused, or its whole queue was at the
// broker.
func (e *Engine) pausedLocked() bool { return e.paused || e.health.source.Paused }

func (e *Engine) setReceiving(err error) {
	e.mu.Lock()
	changed := (err == nil) != (e.health.receiving == nil)
	e.health.receiving = err
	e.mu.Unlock()
	if changed {
		e.refreshStatus()
	}
}

// setSettling notes whether settlements get through: one success is enough.
func (e *Engine) setSettling(err error, someSettled bool) {
	if someSettled {
		err = nil
	}
	e.mu.Lock()
	changed := (err == nil) != (e.health.settling == nil)
	e.health.settling = err
	e.mu.Unlock()
	if changed {
		e.refreshStatus()
	}
}

// refreshStatus announces the status if it changed.
func (e *Engine) refreshStatus() {
	e.mu.Lock()
	if e.source == nil { // it still opens: Run announces what comes of it
		e.mu.Unlock()
		return
	}
	now := e.statusLocked()
	changed := now != e.health.last
	e.health.last = now
	e.mu.Unlock()
	if changed {
		e.emit(&Event{Kind: EventStatus, Status: now})
	}
}
