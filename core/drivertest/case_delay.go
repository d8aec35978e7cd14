package drivertest

import (
	"time"

	"github.com/goconsumer/consumer/core"
)

func delayCases() []Case {
	return []Case{
		{Name: "a delayed retry is never early and late by no more than stated", Exercises: []string{"Delay"},
			needs: canDelay, run: retryDelays},
		{Name: "a delayed publish is never early and late by no more than stated", Exercises: []string{"Delay"},
			needs: canDelay, run: publishDelays},
		{Name: "delayed jobs outlive the process that stored them and the one that would have run them", Exercises: []string{"Delay"},
			needs: canDelay, run: delayedOutliveCrashes},
	}
}

func canDelay(p Powers) bool { return p.Delay != core.SupportNone }

// mixedDelays has short ones behind long ones.
var mixedDelays = []time.Duration{900, 100, 500, 300, 100, 700, 10, 400}

func (k *kit) checkLateness(what string, wanted, waited time.Duration) {
	k.Helper()
	switch {
	case waited < wanted:
		k.Errorf("%s came after %v, %v early", what, waited, wanted-waited)
	case waited > wanted+k.limits.Late:
		k.Errorf("%s came after %v, %v late; the limit is %v", what, waited, waited-wanted, k.limits.Late)
	}
}

func retryDelays(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(len(mixedDelays), "job", "kit.job")...)
	s := k.source(d, deaf{})
	wanted := map[string]time.Duration{}
	settled := map[string]time.Time{}
	var batch []core.Settlement
	for i, got := range k.receive(s, len(mixedDelays)) {
		delay := mixedDelays[i] * time.Millisecond
		id := idOf(got.Body)
		wanted[id], settled[id] = delay, time.Now()
		batch = append(batch, core.Settlement{D: got, Verdict: core.VerdictRetry, Next: k.next(got), Delay: delay})
	}
	k.mustSettle(s, batch...)
	for range mixedDelays {
		got := k.receive(s, 1)[0]
		id := idOf(got.Body)
		k.checkLateness(id, wanted[id], time.Since(settled[id]))
		k.done(s, got)
	}
	k.awaitEmpty()
}

func publishDelays(k *kit) {
	d := k.open()
	msgs := make([]core.Message, len(mixedDelays))
	wanted := map[string]time.Duration{}
	for i, j := range k.jobs(len(mixedDelays), "job", "kit.job") {
		msgs[i] = envelope(j)
		msgs[i].Delay = mixedDelays[i] * time.Millisecond
		wanted[j.ID] = msgs[i].Delay
	}
	s := k.source(d, deaf{})
	start := time.Now()
	k.send(d, msgs...)
	sending := time.Since(start)
	for range mixedDelays {
		got := k.receive(s, 1)[0]
		id := idOf(got.Body)
		if waited := time.Since(start); waited < wanted[id] || waited > wanted[id]+sending+k.limits.Late {
			k.Errorf("%s came %v after it was published with a delay of %v (publishing took %v, the limit is %v)",
				id, waited, wanted[id], sending, k.limits.Late)
		}
		k.done(s, got)
	}
}

// delayedOutliveCrashes lets processes vanish while jobs wait, while they fall
// due and while they are handed out, so that a job that is for a moment in no
// durable place is missed.
func delayedOutliveCrashes(k *kit) {
	const n = 90
	first := k.open()
	msgs := make([]core.Message, n)
	for i, j := range k.jobs(n, "job", "kit.job") {
		msgs[i] = envelope(j)
		msgs[i].Delay = 50*time.Millisecond + time.Duration(i)*2*time.Millisecond
	}
	k.send(first, msgs...)
	k.source(first, deaf{})
	k.h.Crash(k, first)
	for round := range 3 {
		w := k.start(handlers{"kit.job": succeed})
		k.awaitLedger("some delayed jobs run", k.limits.Recovery+k.limits.Patience, func(l *ledger) bool {
			return len(l.runsOf("")) > round*n/3
		})
		w.crash()
	}
	k.conserved()
	k.start(handlers{"kit.job": succeed})
	k.awaitFinished(k.limits.Recovery + k.limits.Patience)
	k.awaitEmpty()
}
