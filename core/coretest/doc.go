// Package coretest is for people who test job handlers. Run puts one job through
// everything that a job meets in production (envelope, registry, middleware,
// time limits, retries, settlement, dead letters) on a broker in memory and on a
// virtual clock: a job that is tried five times over ten minutes takes
// milliseconds, and every delay in the trace is exact.
//
//	func TestShipmentIsRetriedWhileTheCarrierIsDown(t *testing.T) {
//		reg := core.NewRegistry()
//		shipping.Register(reg, carrierThatFails(2))
//		job, _ := core.NewJob("order.ship", shipping.Order{ID: 10001})
//
//		trace := coretest.Run(t, reg, job, coretest.Config{})
//
//		if trace.Outcome != core.OutcomeSuccess || len(trace.Attempts) != 3 {
//			t.Errorf("ended as %s after %d runs:\n%s", trace.Outcome, len(trace.Attempts), trace)
//		}
//	}
//
// Config's fault script (Faults, CrashIn) shows what a handler does when the
// broker refuses, when a reply is lost and when the worker dies after the
// handler has done its work: the cases that idempotency is for.
//
// The handler runs inside a testing/synctest bubble. It may sleep and set timers
// as it likes; channels that it waits on must have been made by code that Run
// calls, and real network calls work but do not move the clock.
package coretest
