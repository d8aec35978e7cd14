// Command bench measures this project beside the least code that does the same
// work safely on the same broker (the limit) and beside other ways to do it.
//
// Machines are shared and noisy, so absolute numbers prove little. All contenders
// of a row therefore do the same work one after the other within a repetition,
// their order turns with every repetition, and what counts is the ratio to the
// limit of the same repetition, as a median over all of them.
//
//	parent ── starts redis-server, loads the queue, one child after the other
//	  └─ child ── one contender, one measurement, a process of its own
//
// A child is this program again with the trial in its arguments; it writes what it
// measured as JSON. So memory, CPU time and garbage of one contender never touch
// another's. A drain ends when the last job is handled and the broker holds no job
// any more, neither waiting nor in a processing list.
//
// File map: plan.go has the rows, their sizes and targets; trial*.go what is
// measured; raw.go, ours.go the contenders; probe.go how CPU, memory and commands
// are read; report.go and table.go what comes out.
package main
