// Package drivertest proves that a driver keeps the contract of package core.
//
// # The conformance kit
//
// A driver's own test implements Harness, which says how to reach its broker,
// and calls Run:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, harness{server: startServer(t)})
//	}
//
// Every case is a sentence about what a driver does. Most drive the real
// core.Engine over the driver; the others call core.Source as the engine does.
// Cases for a power run where the source's Capabilities claim it, and a last
// check fails when something is claimed that no case has exercised. What needs
// help from the broker's side (cut connections, lost replies, taking deliveries
// away from a live process) runs where the harness implements the matching
// interface: Cutter, ReplyLoser, Expirer, Outage.
//
// # The broker in memory
//
// Memory can take the shape of every kind of broker that the contract knows. It
// has switches for faults and works on the virtual clock of testing/synctest.
// The kit itself is tested on it, on good drivers and on broken ones that it
// must fail; core's own tests and core/coretest use it too.
package drivertest
