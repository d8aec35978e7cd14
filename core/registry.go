package core

import "context"

// Registry maps job types and patterns to handlers. It is filled at start and
// read-only afterwards.
type Registry struct{ entries map[string]Handler }

func NewRegistry() *Registry { return &Registry{entries: map[string]Handler{}} }

// Handle registers a raw handler for a type or a pattern (* is any run of
// characters, dots included), with middleware for this type alone. The same
// pattern again, or one that ties with another (equal literal prefix, and some
// type matches both), is an error.
func (r *Registry) Handle(pattern string, h Handler, mw ...Middleware) error { return nil }

// Use adds middleware around every handler.
func (r *Registry) Use(mw ...Middleware) {}

// Types lists the registered patterns, sorted.
func (r *Registry) Types() []string { return nil }

// View is the registry as one process sees it: only what its types filter
// admits (nil = everything).
func (r *Registry) View(types []string) (*RegistryView, error) { return &RegistryView{}, nil }

// RegistryView finds handlers. It is safe for concurrent use.
type RegistryView struct{}

// Lookup returns the handler with all its middleware and the pattern that
// matched (a safe metric label), or nil.
func (v *RegistryView) Lookup(jobType string) (h Handler, pattern string) { return nil, "" }

// Types lists the patterns that the process can run, sorted.
func (v *RegistryView) Types() []string { return nil }

// Handle registers a typed handler: the payload is unmarshalled into P; PHP's []
// decodes as an empty object where P is a struct or map. A payload that does not
// fit P fails the job (FAIL: no retry mends it).
func Handle[P any](r *Registry, pattern string, h func(ctx context.Context, payload P) error, mw ...Middleware) error {
	return nil
}
