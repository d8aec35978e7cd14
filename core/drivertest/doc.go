// Package drivertest proves that a driver keeps the contract of package core.
//
// Its first half is the conformance kit: a driver's own test implements Harness
// and calls Run. Its second half is Memory, a broker in memory that can take the
// shape of every kind of broker the contract knows, with switches for faults and
// the virtual clock of testing/synctest: the kit runs on it, core's own tests
// run on it, and core/coretest is built on it.
package drivertest
