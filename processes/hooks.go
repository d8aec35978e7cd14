package processes

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Hooks are called around the life of a process, in the OS process that runs its
// handlers (with IsolationOS: the child, once for each replica). nil = nothing to
// do. A panic in one is logged and, in Init, an error.
type Hooks struct {
	// Init runs before a process subscribes for the first time; ctx ends when the
	// process is stopped. An error is tried again with the process's restart
	// policy; a *core.SetupError stops the process.
	Init func(ctx context.Context, process string) error
	// Drain runs when a stop begins: nothing is fetched any more, running handlers
	// may still finish.
	Drain func(process string)
	// Shutdown runs when no handler of the process runs any more, stuck ones
	// excepted. The stop waits for it.
	Shutdown func(process string)
	// Exception runs when something ended that should not have: a replica, a child
	// OS process, or a handler by a panic. It may be called concurrently and must
	// not block.
	Exception func(process string, err error)
}

// hook calls fn and turns a panic into a logged error.
func (p *process) hook(name string, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
			p.logger.Error("hook.panicked", "hook", name, "error", MaskURL(fmt.Sprint(v)), "stack", string(debug.Stack()))
		}
	}()
	return fn()
}

func (p *process) hookDrain() {
	if fn := p.host.opts.Hooks.Drain; fn != nil {
		_ = p.hook("drain", func() error { fn(p.spec.Name); return nil }) // logged
	}
}

func (p *process) hookShutdown() {
	if fn := p.host.opts.Hooks.Shutdown; fn != nil {
		_ = p.hook("shutdown", func() error { fn(p.spec.Name); return nil }) // logged
	}
}

// exception tells the program about err.
func (p *process) exception(err error) {
	if fn := p.host.opts.Hooks.Exception; fn != nil {
		_ = p.hook("exception", func() error { fn(p.spec.Name, err); return nil }) // logged
	}
}

// hookInit runs Init until it succeeds. false: the process is not to start.
func (p *process) hookInit(ctx context.Context) bool {
	fn := p.host.opts.Hooks.Init
	if fn == nil {
		return true
	}
	for crashes := 1; ctx.Err() == nil; crashes++ {
		err := p.hook("init", func() error { return fn(ctx, p.spec.Name) })
		switch {
		case err == nil:
			return true
		case final(err):
			p.fail(err)
			return false
		case p.spec.Restart.Limit > 0 && crashes > p.spec.Restart.Limit:
			p.fail(&CrashLoopError{Crashes: crashes, Err: err})
			return false
		}
		delay := p.spec.Restart.delay(crashes)
		p.logger.Error("process.init_failed", "error", MaskURL(err.Error()), "tries", crashes, "delay_ms", delay.Milliseconds())
		p.exception(err)
		pause(ctx, delay)
	}
	return false
}
