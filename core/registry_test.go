package core

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// answer is a handler that can be told from others by its error.
func answer(text string) Handler {
	return func(context.Context, *Job) error { return errors.New(text) }
}

func registryOf(t *testing.T, patterns ...string) *Registry {
	t.Helper()
	r := NewRegistry()
	for _, pattern := range patterns {
		if err := r.Handle(pattern, answer(pattern)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func viewOf(t *testing.T, r *Registry, types ...string) *RegistryView {
	t.Helper()
	view, err := r.View(types)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func TestLookupRunsTheHandlerOfTheBestPattern(t *testing.T) {
	t.Parallel()
	view := viewOf(t, registryOf(t, "*", "order.*", "order.paid"))
	for jobType, want := range map[string]string{"order.paid": "order.paid", "order.x": "order.*", "x": "*"} {
		h, pattern := view.Lookup(jobType)
		if h == nil || pattern != want || h(t.Context(), nil).Error() != want {
			t.Errorf("%q went to %q", jobType, pattern)
		}
	}
}

func TestLookupKnowsOnlyTypesThatAPatternAndAFilterMatch(t *testing.T) {
	t.Parallel()
	view := viewOf(t, registryOf(t, "order.*", "user.made", "mail.*"), "order.paid", "user.*")
	for jobType, want := range map[string]string{
		"order.paid":  "order.*",
		"order.other": "", // no filter
		"user.made":   "user.made",
		"user.gone":   "", // no pattern
		"mail.x":      "",
	} {
		if _, pattern := view.Lookup(jobType); pattern != want {
			t.Errorf("%q went to %q, want %q", jobType, pattern, want)
		}
	}
	if got, want := view.Types(), []string{"order.*", "user.made"}; !slices.Equal(got, want) {
		t.Errorf("types %q, want %q", got, want)
	}
}

func TestViewRefusesAFilterThatNothingCanMeet(t *testing.T) {
	t.Parallel()
	r := registryOf(t, "order.*", "user.made")
	for filter, hint := range map[string]string{"odrer.*": `did you mean "order.*"?`, "invoices.printing.*": "registered are order.*, user.made"} {
		_, err := r.View([]string{"order.paid", filter})
		setup, ok := errors.AsType[*SetupError](err)
		if !ok || !strings.Contains(setup.Sentence, filter) || !strings.Contains(setup.Sentence, hint) {
			t.Errorf("%q: %v", filter, err)
		}
	}
}

func TestMiddlewareWrapsFromTheOutsideIn(t *testing.T) {
	t.Parallel()
	var calls []string
	note := func(name string) Middleware {
		return func(next Handler) Handler {
			return func(ctx context.Context, job *Job) error {
				calls = append(calls, name)
				return next(ctx, job)
			}
		}
	}
	r := NewRegistry()
	r.Use(note("global 1"))
	if err := r.Handle("a", answer("done"), note("own 1"), note("own 2")); err != nil {
		t.Fatal(err)
	}
	r.Use(note("global 2")) // counts for handlers registered before, too
	h, _ := viewOf(t, r).Lookup("a")
	if err := h(t.Context(), nil); err == nil || err.Error() != "done" {
		t.Fatalf("got %v", err)
	}
	if want := []string{"global 1", "global 2", "own 1", "own 2"}; !slices.Equal(calls, want) {
		t.Errorf("got %q, want %q", calls, want)
	}
}

func TestRegistryRefusesANilHandler(t *testing.T) {
	t.Parallel()
	if err := NewRegistry().Handle("a", nil); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("got %v", err)
	}
	if err := Handle[struct{}](NewRegistry(), "a", nil); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("typed: got %v", err)
	}
}

func BenchmarkLookup(b *testing.B) {
	r := NewRegistry()
	for _, pattern := range []string{"order.*", "user.*", "mail.*", "*", "order.paid.notify"} {
		if err := r.Handle(pattern, answer(pattern)); err != nil {
			b.Fatal(err)
		}
	}
	view, err := r.View([]string{"order.*"})
	if err != nil {
		b.Fatal(err)
	}
	for name, jobType := range map[string]string{"exact": "order.paid.notify", "pattern": "order.shipped"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if h, _ := view.Lookup(jobType); h == nil {
					b.Fatal("no handler")
				}
			}
		})
	}
}

func TestACloneTakesHandlersThatTheRegistryDoesNotGet(t *testing.T) {
	t.Parallel()
	h := func(context.Context, *Job) error { return nil }
	original := NewRegistry()
	if err := original.Handle("a", h); err != nil {
		t.Fatal(err)
	}
	clone := original.Clone()
	for _, pattern := range []string{"b", "c.*"} {
		if err := clone.Handle(pattern, h); err != nil {
			t.Fatal(err)
		}
	}
	if got := original.Types(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the original has %v", got)
	}
	if got := clone.Types(); !slices.Equal(got, []string{"a", "b", "c.*"}) {
		t.Errorf("the clone has %v", got)
	}
}
