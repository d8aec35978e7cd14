package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goconsumer/consumer/internal/nearest"
)

// Registry maps job types and patterns to handlers. It is filled at start, by
// one goroutine, and read-only afterwards.
type Registry struct {
	handlers   patternTable[Handler]
	middleware []Middleware
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// Handle registers a raw handler for a type or a pattern (* is any run of
// characters, dots included), with middleware for this type alone. An exact type
// beats a pattern, and of two patterns the one with more text before its first *
// wins. The same pattern again, or one that ties with another (equally much text
// there, and some type matches both), is an error.
func (r *Registry) Handle(pattern string, h Handler, mw ...Middleware) error {
	err := errors.New("the handler is nil")
	if h != nil {
		err = r.handlers.add(pattern, chain(h, mw))
	}
	if err != nil {
		return fmt.Errorf("register handler for %q: %w", pattern, err)
	}
	return nil
}

// Use adds middleware around every handler, also those registered before. It
// stands outside the middleware of a single type.
func (r *Registry) Use(mw ...Middleware) { r.middleware = append(r.middleware, mw...) }

// Clone is a registry of its own that starts with the same handlers and
// middleware, so that more can be added for one use.
func (r *Registry) Clone() *Registry {
	same := func(h Handler) Handler { return h }
	return &Registry{handlers: r.handlers.mapped(same), middleware: slices.Clone(r.middleware)}
}

// Types lists the registered patterns, sorted.
func (r *Registry) Types() []string { return r.handlers.patterns() }

// chain puts middleware around a handler, the first one outermost.
func chain(h Handler, mw []Middleware) Handler {
	for _, wrap := range slices.Backward(mw) {
		h = wrap(h)
	}
	return h
}

// View is the registry as one process sees it now: a type is known when a
// registered pattern and one of types match it (none = every type). An entry of
// types that no registered pattern can ever meet is a *SetupError.
func (r *Registry) View(types []string) (*RegistryView, error) {
	known := r.Types()
	for _, filter := range types {
		if !slices.ContainsFunc(known, func(p string) bool { return patternsMeet(filter, p) }) {
			return nil, unknownFilter(filter, known)
		}
	}
	v := &RegistryView{filters: slices.Clone(types)}
	for _, pattern := range known {
		if len(types) == 0 || slices.ContainsFunc(types, func(f string) bool { return patternsMeet(f, pattern) }) {
			v.types = append(v.types, pattern)
		}
	}
	v.handlers = r.handlers.mapped(func(h Handler) Handler { return chain(h, r.middleware) })
	return v, nil
}

func unknownFilter(filter string, known []string) error {
	sentence := fmt.Sprintf("types: no handler is registered for %q", filter)
	if near, ok := nearest.Of(filter, known); ok {
		sentence += fmt.Sprintf("; did you mean %q?", near)
	} else if len(known) > 0 {
		sentence += "; registered are " + strings.Join(known, ", ")
	}
	return &SetupError{Sentence: sentence}
}

// RegistryView finds handlers. It is safe for concurrent use.
type RegistryView struct {
	handlers patternTable[Handler]
	filters  []string // none = every type
	types    []string
}

// Lookup returns the handler with all its middleware and the pattern that
// matched (a safe metric label), or nil.
func (v *RegistryView) Lookup(jobType string) (h Handler, pattern string) {
	h, pattern, ok := v.handlers.find(jobType)
	if !ok || !v.admits(jobType) {
		return nil, ""
	}
	return h, pattern
}

func (v *RegistryView) admits(jobType string) bool {
	if len(v.filters) == 0 {
		return true
	}
	for _, filter := range v.filters {
		if MatchType(filter, jobType) {
			return true
		}
	}
	return false
}

// Types lists the patterns that the process can run, sorted.
func (v *RegistryView) Types() []string { return slices.Clone(v.types) }
