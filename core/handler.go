package core

import "context"

// Handler is user code for one job. It may be called from many goroutines at
// once. job is the handler's own copy: changing it does not change what a retry
// carries; the bytes of its Payload must not be written to. nil is success; see
// Result for everything else. ctx ends when the time limit passes, when the job
// is no longer ours, and at a hard stop; context.Cause(ctx) says which. A handler
// should return soon after that: one that does not is reported as stuck and its
// late result is dropped.
type Handler func(ctx context.Context, job *Job) error

// Middleware wraps a Handler. The first one given is the outermost.
type Middleware func(Handler) Handler
