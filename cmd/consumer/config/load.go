package config

import (
	"context"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
	adminserver "github.com/goconsumer/consumer/processes/admin"
	"github.com/goconsumer/consumer/processes/builtin"
)

// loader builds a Config from a file's entries.
type loader struct {
	reader
	fields      []field // of the file
	schemes     []scheme
	embedded    bool
	root        *entry
	environment *entry
	config      *Config
}

func newLoader(path string, opts Options) *loader {
	all := schemes(opts.Schemes)
	return &loader{
		reader:  reader{file: path, lookupEnv: opts.LookupEnv, anchors: map[string]ast.Node{}},
		fields:  fileFields(all),
		schemes: all, embedded: opts.Embedded,
		config: &Config{Path: path},
	}
}

// load goes on after faults, so that one run shows them all.
func (l *loader) load(body []byte) {
	l.root = l.read(body, l.fields)
	if l.root == nil {
		return
	}
	var faults Faults
	l.environment, faults = readEnvironment(processFields(), l.lookupEnv)
	l.faults = append(l.faults, faults...)

	l.loadTransports()
	l.loadHandlers()
	l.loadProcesses()
	l.loadAdmin()
	l.checkUnused()
	l.collectValues()
}

func (l *loader) loadTransports() {
	section := l.root.at("transports")
	for _, name := range keysOf(section) {
		t := section.at(name)
		address, ok := dataOf[string](t.at("url"))
		if !ok && !t.has("url") {
			l.fault(t.line, t.column, "transports.%s has no url", name)
		}
		l.config.Transports = append(l.config.Transports, processes.Endpoint{Name: name, URL: address})
	}
}

func (l *loader) loadHandlers() {
	section := l.root.at("handlers")
	registry := core.NewRegistry()
	for _, pattern := range keysOf(section) {
		h := section.at(pattern)
		l.checkHandler(pattern, h)
		l.checkPattern(registry, "handlers", pattern, h)
		handler := Handler{Pattern: pattern, Log: h.at("log") != nil}
		if h.at("http") != nil {
			handler.HTTP = &HTTPHandler{}
			override(&handler.HTTP.URL, h.at("http", "url"))
			override(&handler.HTTP.Timeout, h.at("http", "timeout"))
		}
		if h.at("exec") != nil {
			handler.Exec = &ExecHandler{Command: asWords(itemsOf(h.at("exec", "command")))}
		}
		l.config.Handlers = append(l.config.Handlers, handler)
	}
}

func (l *loader) loadAdmin() {
	section := l.root.at("admin")
	if section == nil {
		return
	}
	admin := &Admin{Listen: "127.0.0.1:9090"}
	override(&admin.Listen, section.at("listen"))
	override(&admin.Token, section.at("token"))
	if admin.Token == "" && !section.faulty["token"] && !adminserver.Loopback(admin.Listen) {
		at := section.at("listen")
		l.fault(at.line, at.column, "admin.listen is not a loopback address, so admin.token must be set; "+
			"set it or listen on 127.0.0.1")
	}
	l.config.Admin = admin
}

func (l *loader) loadProcesses() {
	section := l.root.at("processes")
	if len(keysOf(section)) == 0 && len(l.faults) == 0 {
		l.fault(1, 1, "there are no processes; name at least one under processes:")
	}
	for _, name := range keysOf(section) {
		from := layers{section.at(name), l.environment, l.root.at("defaults")}
		p := &Process{Spec: processes.Spec{Name: name}}
		p.fill(from)
		if l.runsCommands(p.Types) {
			p.Grace = builtin.KillAfter + 500*time.Millisecond
		}
		l.checkProcess(p, from)
		l.config.Processes = append(l.config.Processes, p)
	}
}

func take[T any](l layers, path ...string) T {
	var none T
	f := fieldAt(processFields(), path)
	if r := l.value(f, path...); r != nil {
		if value, ok := r.data.(T); ok {
			return value
		}
	}
	return none
}

// runsCommands says whether an exec handler can run jobs of the types (none = every
// type).
func (l *loader) runsCommands(types []string) bool {
	return slices.ContainsFunc(l.config.Handlers, func(h Handler) bool {
		registry := core.NewRegistry()
		err := registry.Handle(h.Pattern, func(context.Context, *core.Job) error { return nil })
		return h.Exec != nil && err == nil && (len(types) == 0 || slices.ContainsFunc(types, func(filter string) bool {
			_, err := registry.View([]string{filter})
			return err == nil
		}))
	})
}

// fieldAt finds the field of a path that exists.
func fieldAt(fields []field, path []string) field {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == path[0] })
	if len(path) == 1 {
		return fields[i]
	}
	return fieldAt(fields[i].fields, path[1:])
}

func takeWords(l layers, path ...string) []string {
	return asWords(take[[]any](l, path...))
}

func asWords(items []any) []string {
	var words []string
	for _, item := range items {
		words = append(words, item.(string))
	}
	return words
}

func (p *Process) fill(l layers) {
	p.Enabled = take[bool](l, "enabled")
	p.Transport = take[string](l, "transport")
	p.Queue = take[string](l, "queue")
	p.Types = takeWords(l, "types")
	p.Replicas = take[int](l, "replicas")
	p.Concurrency = take[int](l, "concurrency")
	p.Priority = core.PriorityMode(take[string](l, "priority"))
	p.Ordering = core.Ordering(take[string](l, "ordering"))
	p.HandlerTimeout = take[time.Duration](l, "handler_timeout")
	if p.HandlerTimeout == 0 {
		p.HandlerTimeout = -1 // written as 0s: none
	}
	p.ShutdownTimeout = take[time.Duration](l, "shutdown_timeout")
	p.MaxCrashes = take[int](l, "max_crashes")
	p.MaxDefers = take[int](l, "max_defers")
	p.MaxStuck = take[int](l, "max_stuck")
	p.MaxSize = take[int](l, "max_size")
	p.DefaultJobType = take[string](l, "default_job_type")
	p.Format = core.Format(take[string](l, "format"))
	p.RetryUnregistered = take[string](l, "unregistered") == "retry"
	p.LogSuccess = take[bool](l, "log_success")
	p.Accept = takeWords(l, "accept")
	p.fillRetry(l)
	p.DeadLetter = processes.DeadLetter{
		Driver:    processes.DeadDriver(take[string](l, "dead_letter", "driver")),
		Transport: take[string](l, "dead_letter", "transport"),
		Prefix:    take[string](l, "dead_letter", "prefix"),
		DeadLetterPolicy: core.DeadLetterPolicy{
			MaxLen: int64(take[int](l, "dead_letter", "max_len")),
			OnFull: core.OnFull(take[string](l, "dead_letter", "on_full")),
		},
	}
	p.Restart = processes.Restart{
		Initial: take[time.Duration](l, "restart", "initial"),
		Max:     take[time.Duration](l, "restart", "max"),
		Limit:   take[int](l, "restart", "limit"),
	}
	p.Isolation = processes.Isolation(take[string](l, "isolation"))
	p.MemoryLimit = int64(take[int](l, "memory_limit"))
	p.Recycle = processes.Recycle{
		Jobs:   take[int](l, "recycle", "jobs"),
		Memory: int64(take[int](l, "recycle", "memory")),
		After:  take[time.Duration](l, "recycle", "after"),
	}
	p.Redis = Redis{
		Prefix:   take[string](l, "redis", "prefix"),
		KeyStyle: take[string](l, "redis", "key_style"),
		Keys: RedisKeys{
			Ready:    take[string](l, "redis", "keys", "ready"),
			Priority: take[string](l, "redis", "keys", "priority"),
			Delay:    take[string](l, "redis", "keys", "delay"),
			Dead:     take[string](l, "redis", "keys", "dead"),
		},
		Lease:        take[time.Duration](l, "redis", "lease"),
		DelayPoll:    take[time.Duration](l, "redis", "delay_poll"),
		Sweep:        take[time.Duration](l, "redis", "sweep"),
		Block:        take[time.Duration](l, "redis", "block"),
		Pool:         take[int](l, "redis", "pool"),
		WaitReplicas: take[int](l, "redis", "wait_replicas"),
		DeadPrefix:   p.DeadLetter.Prefix,
	}
}

func (p *Process) fillRetry(l layers) {
	p.Retry = core.RetryPolicy{
		Type:        core.RetryType(take[string](l, "retry", "type")),
		MaxAttempts: take[int](l, "retry", "max_attempts"),
		BaseDelay:   take[time.Duration](l, "retry", "base_delay"),
		Multiplier:  take[float64](l, "retry", "multiplier"),
		MaxDelay:    take[time.Duration](l, "retry", "max_delay"),
		Jitter:      take[float64](l, "retry", "jitter"),
	}
	types := l.process.at("retry_types")
	if types == nil {
		types = l.defaults.at("retry_types")
	}
	for _, pattern := range keysOf(types) {
		policy, written := p.Retry, types.at(pattern)
		override((*string)(&policy.Type), written.at("type"))
		override(&policy.MaxAttempts, written.at("max_attempts"))
		override(&policy.BaseDelay, written.at("base_delay"))
		override(&policy.Multiplier, written.at("multiplier"))
		override(&policy.MaxDelay, written.at("max_delay"))
		override(&policy.Jitter, written.at("jitter"))
		p.RetryTypes = append(p.RetryTypes, core.RetryRule{Pattern: pattern, Policy: policy})
	}
}

func override[T any](target *T, e *entry) {
	if v, ok := dataOf[T](e); ok {
		*target = v
	}
}

func dataOf[T any](e *entry) (T, bool) {
	if e == nil {
		var none T
		return none, false
	}
	v, ok := e.data.(T)
	return v, ok
}

func itemsOf(e *entry) []any {
	items, _ := dataOf[[]any](e)
	return items
}

func keysOf(e *entry) []string {
	if e == nil {
		return nil
	}
	return e.keys
}
