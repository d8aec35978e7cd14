// Package fault names every step between receiving a job and having settled it,
// so that a test can kill the program, stall it or make the step fail exactly
// there. The points do nothing unless the program is built with the tag faults;
// then the environment variable CONSUMER_FAULTS says what happens where (see
// At).
//
// A file points_<domain>.go declares each domain's points. A test compares
// them with the calls in the source: a point that no step passes, or a step
// whose point is not declared, fails it.
package fault

import "slices"

// Point is the name of one step, domain first: "engine.decoded".
type Point string

// Points lists every declared point, for suites that go through all of them.
func Points() []Point {
	return slices.Concat(enginePoints(), redisPoints())
}
