// Package fault names every step between receiving a job and having settled it,
// so that a test can kill the program, stall it or make the step fail exactly
// there. The points do nothing unless the program is built with the tag faults.
package fault

// Point is the name of one step, domain first: "engine.decoded".
type Point string
