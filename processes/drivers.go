package processes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// closeTimeout bounds how long a publisher or driver may take to close.
const closeTimeout = 2 * time.Second

func setupError(format string, args ...any) *core.SetupError {
	return &core.SetupError{Sentence: fmt.Sprintf(format, args...)}
}

// drivers holds the one driver of each endpoint, made when a process first needs
// it.
type drivers struct {
	endpoints map[string]Endpoint
	makers    map[string]DriverFunc

	mu     sync.Mutex
	made   map[string]core.Driver
	closed bool
}

func newDrivers(endpoints []Endpoint, makers map[string]DriverFunc) *drivers {
	d := &drivers{endpoints: map[string]Endpoint{}, makers: makers, made: map[string]core.Driver{}}
	for _, e := range endpoints {
		d.endpoints[e.Name] = e
	}
	return d
}

// check reports what would keep open from working.
func (d *drivers) check(endpoint string) error {
	e, ok := d.endpoints[endpoint]
	if !ok {
		return setupError("there is no transport named %q; add it or name another one", endpoint)
	}
	if scheme, _, _ := strings.Cut(e.URL, "://"); d.makers[scheme] == nil {
		return setupError("transport %s: this program has no driver for %s://", e.Name, scheme)
	}
	return nil
}

func (d *drivers) open(endpoint string) (core.Driver, error) {
	if err := d.check(endpoint); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, core.ErrClosed
	}
	if driver := d.made[endpoint]; driver != nil {
		return driver, nil
	}
	e := d.endpoints[endpoint]
	scheme, _, _ := strings.Cut(e.URL, "://")
	driver, err := d.makers[scheme](e)
	if err != nil {
		return nil, err
	}
	d.made[endpoint] = driver
	return driver, nil
}

// close closes every driver and makes no more. Their sources and publishers are
// closed before.
func (d *drivers) close(logger *slog.Logger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for name, driver := range d.made {
		if err := driver.Close(ctx); err != nil {
			logger.Warn("driver.close_failed", "transport", name, "error", MaskURL(err.Error()))
		}
	}
}
