package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/nearest"
	"github.com/goconsumer/consumer/processes"
)

// checkHandler wants exactly one kind of handler, complete.
func (l *loader) checkHandler(pattern string, h *entry) {
	kinds := slices.DeleteFunc([]string{"http", "exec", "log"}, func(kind string) bool { return !h.has(kind) })
	switch {
	case len(kinds) == 0:
		l.fault(h.line, h.column, "handlers.%s needs one of http, exec and log", pattern)
	case len(kinds) > 1:
		l.fault(h.line, h.column, "handlers.%s has %s; it must have one of them", pattern, strings.Join(kinds, " and "))
	}
	if http := h.at("http"); http != nil && !http.has("url") {
		l.fault(http.line, http.column, "handlers.%s.http has no url", pattern)
	}
	if exec := h.at("exec"); exec != nil && (!exec.has("command") || exec.at("command") != nil && len(itemsOf(exec.at("command"))) == 0) {
		l.fault(exec.line, exec.column, "handlers.%s.exec has no command", pattern)
	}
}

// checkProcess reports what the fields alone cannot tell.
func (l *loader) checkProcess(p *Process, from layers) {
	for _, key := range []string{"transport", "queue"} {
		if !from.process.has(key) && !from.defaults.has(key) {
			l.fault(from.process.line, from.process.column, "processes.%s has no %s", p.Name, key)
		}
	}
	l.checkPatterns(p, from)
	l.checkMemory(p, from)
	endpoint, ok := l.checkTransport(p, from, "transport")
	if !ok {
		return
	}
	scheme := findScheme(l.schemes, endpoint.URL)
	if l.embedded {
		scheme = findScheme(l.schemes, "embedded://redis")
	}
	if !scheme.built {
		v := from.value(field{}, "transport")
		l.pend(p.Name, v.line, v.column, "processes.%s uses the transport %s, and %s is not built yet", p.Name, endpoint.Name, scheme.prefix)
	}
	l.checkPending(p, from, scheme.family, processFields(), nil)
	l.checkTransportPending(p.Name, endpoint.Name)
	l.checkDeadLetter(p, from, scheme.family)
	if v := from.value(field{}, "default_job_type"); v != nil && p.Format == core.FormatDelayQueue {
		l.fault(v.line, v.column, "processes.%s.default_job_type does not go with format: delayqueue; leave one of them out", p.Name)
	}
	if scheme.family == "redis" {
		l.checkRedis(p, from, endpoint.URL)
	}
}

// checkMemory wants a child OS process where its memory is to be bounded.
func (l *loader) checkMemory(p *Process, from layers) {
	if p.Isolation == processes.IsolationOS {
		return
	}
	for _, path := range [][]string{{"memory_limit"}, {"recycle", "memory"}} {
		if v := from.value(field{}, path...); v != nil {
			l.fault(v.line, v.column, "processes.%s.%s needs isolation: os, since the memory of goroutines can't be told apart", p.Name, strings.Join(path, "."))
		}
	}
}

// checkTransport finds the endpoint that a key names; ok is false when there is
// none to go on with.
func (l *loader) checkTransport(p *Process, from layers, path ...string) (endpoint processes.Endpoint, ok bool) {
	v := from.value(field{}, path...)
	if v == nil {
		return processes.Endpoint{}, false
	}
	name, _ := v.data.(string)
	names := make([]string, len(l.config.Transports))
	for i, t := range l.config.Transports {
		if t.Name == name {
			return t, t.URL != ""
		}
		names[i] = t.Name
	}
	if l.root.at("transports") == nil && l.root.has("transports") || l.root.at("transports").has(name) {
		return processes.Endpoint{}, false // reported there
	}
	hint := "; name it under transports:"
	if best, near := nearest.Of(name, names); near {
		hint = fmt.Sprintf("; did you mean %q?", best)
	}
	l.fault(v.line, v.column, "processes.%s.%s names an unknown transport %q%s", p.Name, strings.Join(path, "."), name, hint)
	return processes.Endpoint{}, false
}

// checkPatterns finds patterns of retry_types that tie.
func (l *loader) checkPatterns(p *Process, from layers) {
	section := from.process.at("retry_types")
	if section == nil {
		section = from.defaults.at("retry_types")
	}
	registry := core.NewRegistry()
	for _, rule := range p.RetryTypes {
		l.checkPattern(registry, "retry_types", rule.Pattern, section.at(rule.Pattern))
	}
}

// checkPattern adds a pattern to those of its section and reports a tie.
func (l *loader) checkPattern(registry *core.Registry, section, pattern string, e *entry) {
	err := registry.Handle(pattern, func(context.Context, *core.Job) error { return nil })
	if err == nil {
		return
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without the registry's own "register handler"
	}
	l.fault(e.line, e.column, "%s.%s: %s", section, pattern, err)
}

// checkDeadLetter settles which Redis keeps the dead letters of redis_list.
func (l *loader) checkDeadLetter(p *Process, from layers, family string) {
	v := from.value(field{}, "dead_letter", "transport")
	if p.DeadLetter.Driver != processes.DeadRedisList {
		if v != nil {
			l.pend("", v.line, v.column, "dead_letter.transport has no effect on process %s without driver: redis_list", p.Name)
		}
		return
	}
	if v != nil {
		if endpoint, ok := l.checkTransport(p, from, "dead_letter", "transport"); ok && findScheme(l.schemes, endpoint.URL).family != "redis" {
			l.fault(v.line, v.column, "processes.%s.dead_letter.transport must name a Redis transport", p.Name)
		}
		return
	}
	if family == "redis" {
		p.DeadLetter.Transport = p.Transport
		return
	}
	var redis []string
	for _, t := range l.config.Transports {
		if findScheme(l.schemes, t.URL).family == "redis" {
			redis = append(redis, t.Name)
		}
	}
	if len(redis) != 1 {
		l.fault(from.process.line, from.process.column, "processes.%s keeps dead letters in a redis_list; "+
			"set dead_letter.transport to the Redis transport that has it", p.Name)
		return
	}
	p.DeadLetter.Transport = redis[0]
}

// pend notes something that is known and does nothing yet. process "" means that
// no process needs it.
func (l *loader) pend(process string, line, column int, format string, args ...any) {
	l.config.notBuilt = append(l.config.notBuilt, notBuilt{
		fault:   Fault{File: l.file, Line: line, Column: column, Text: fmt.Sprintf(format, args...)},
		process: process,
	})
}

// checkPending notes the values of a process that are not built yet, and the
// sections of other transports than its own.
func (l *loader) checkPending(p *Process, from layers, family string, fields []field, path []string) {
	for _, f := range fields {
		here := append(path[:len(path):len(path)], f.name)
		where := strings.Join(here, ".")
		v := from.value(field{}, here...)
		switch {
		case v == nil:
		case f.family != "" && !slices.Contains(strings.Fields(f.family), family):
			if from.process.at(here...) != nil {
				l.pend("", v.line, v.column, "processes.%s.%s has no effect: %s is not such a transport", p.Name, where, p.Transport)
			}
		case f.pending != nil && f.fields != nil:
			l.pend(p.Name, v.line, v.column, "%s is not built yet (process %s)", where, p.Name)
		case f.pending != nil && f.pending(v.data):
			l.pend(p.Name, v.line, v.column, "%s: %v is not built yet (process %s)", where, v.data, p.Name)
		case f.fields != nil:
			l.checkPending(p, from, family, f.fields, here)
		}
	}
}

// checkTransportPending notes the keys of a process's transport that are not
// built yet.
func (l *loader) checkTransportPending(process, transport string) {
	if l.embedded {
		return // nothing of the transport is used
	}
	t := l.root.at("transports", transport)
	for _, key := range []string{"management", "tls"} {
		if e := t.at(key); e != nil {
			l.pend(process, e.line, e.column, "transports.%s.%s is not built yet", transport, key)
		}
	}
}

// checkUnused notes what no process needs and is not built yet.
func (l *loader) checkUnused() {
	if e := l.root.at("tracking"); e != nil {
		l.pend("", e.line, e.column, "tracking is not built yet: jobs run without it")
	}
	for _, t := range l.config.Transports {
		if slices.ContainsFunc(l.config.Processes, func(p *Process) bool { return p.Transport == t.Name }) || t.URL == "" {
			continue
		}
		l.checkTransportPending("", t.Name)
		if s := findScheme(l.schemes, t.URL); !s.built {
			e := l.root.at("transports", t.Name)
			l.pend("", e.line, e.column, "transports.%s: %s is not built yet", t.Name, s.prefix)
		}
	}
}
