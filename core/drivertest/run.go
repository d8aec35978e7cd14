package drivertest

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Case is one sentence about a driver.
type Case struct {
	Name string
	// Exercises names the fields of core.Capabilities and the optional
	// interfaces that the case puts to the test.
	Exercises []string
	// needs says whether the case applies; nil = always.
	needs func(p Powers) bool
	run   func(k *kit)
}

// Powers is what a driver claims and what its harness can do.
type Powers struct {
	core.Capabilities
	Isolator, Extender, LanePauser, Inspector bool
	Harness                                   Harness
	Limits                                    Limits
}

// Cases lists the whole kit, a theme after the other.
func Cases() []Case {
	return slices.Concat(
		receiveCases(), settleCases(), outcomeCases(), delayCases(),
		crashCases(), stopCases(), flowCases(), laneCases(), publishCases(),
	)
}

// Run runs every case that applies to the driver as a subtest of its own, all
// of them in parallel, and checks that no claim stays untested.
func Run(t *testing.T, h Harness) {
	var powers Powers
	bubble(t, h, func(t *testing.T, h Harness) { powers = Probe(t, h) })
	exercised := map[string]bool{}
	for _, c := range Cases() {
		if !c.Applies(powers) {
			t.Logf("does not apply: %s", c.Name)
			continue
		}
		for _, name := range c.Exercises {
			exercised[name] = true
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			bubble(t, h, func(t *testing.T, h Harness) { c.Run(t, h) })
		})
	}
	for _, claim := range powers.Claims() {
		if !exercised[claim] {
			t.Errorf("%s is claimed, but no case that applies exercises it", claim)
		}
	}
}

func bubble(t *testing.T, h Harness, test func(t *testing.T, h Harness)) {
	if b, ok := h.(Bubbler); ok {
		b.Bubble(t, test)
		return
	}
	test(t, h)
}

// Applies says whether a driver with these powers must pass the case.
func (c Case) Applies(p Powers) bool { return c.needs == nil || c.needs(p) }

// Run runs one case. It reports through t alone, so that it also works on a
// testing.TB that only records.
func (c Case) Run(t testing.TB, h Harness) { c.run(newKit(t, h)) }

// Probe opens a source and looks at what it can do.
func Probe(t testing.TB, h Harness) Powers {
	d := h.Open(t)
	b := bindingOf(t, h)
	s, err := d.OpenSource(t.Context(), b, deaf{})
	if err != nil {
		t.Fatalf("open source: %v", err)
	}
	p := Powers{Capabilities: s.Capabilities(), Harness: h, Limits: h.Limits()}
	_, p.Isolator = s.(core.Isolator)
	_, p.Extender = s.(core.Extender)
	_, p.LanePauser = s.(core.LanePauser)
	_, p.Inspector = d.(core.Inspector)
	if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("close source: %v", err)
	}
	if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("close driver: %v", err)
	}
	return p
}

// Claims names every power that is claimed: each field of core.Capabilities
// that is not zero (but for Notes, which only people read), and each optional
// interface.
func (p Powers) Claims() []string {
	claims := map[string]bool{
		"Isolator": p.Isolator, "Extender": p.Extender, "LanePauser": p.LanePauser, "Inspector": p.Inspector,
	}
	v := reflect.ValueOf(p.Capabilities)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Notes" {
			claims[name] = !v.Field(i).IsZero()
		}
	}
	maps.DeleteFunc(claims, func(_ string, claimed bool) bool { return !claimed })
	return slices.Sorted(maps.Keys(claims))
}

// bindingOf completes the harness's binding.
func bindingOf(t testing.TB, h Harness) core.Binding {
	b := h.Binding(t)
	b.Process = "kit"
	b.Concurrency = 4
	b.Priority = core.PriorityNone
	b.Ordering = core.OrderingNone
	b.Logger = slog.New(slog.NewTextHandler(logWriter{t}, nil))
	return b
}

// logWriter sends a driver's log to the test's.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// deaf is a Notices that nobody listens to; revoked lanes are drained at once.
type deaf struct{}

func (deaf) State(core.Status) {}
func (deaf) Event(*core.Event) {}
func (deaf) Revoking([]core.Lane, time.Time) <-chan struct{} {
	drained := make(chan struct{})
	close(drained)
	return drained
}
