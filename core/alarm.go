package core

import "time"

// alarm fires at a deadline that moves with every job. The timer under it is left
// alone when it fires early enough: its function looks what is due, which may be
// nothing, and sets the alarm again. So a slot whose jobs take microseconds and
// may take minutes touches its timer once in minutes and not twice a job.
type alarm struct {
	timer *time.Timer
	at    time.Time // when timer fires; zero: it will not
}

// set makes the alarm fire at the given time, or before.
func (a *alarm) set(at time.Time) {
	if a.at.IsZero() || at.Before(a.at) {
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}

// fired is the first thing that the timer's function says.
func (a *alarm) fired() { a.at = time.Time{} }
