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
	makers map[string]DriverFunc

	mu     sync.Mutex
	made   map[Endpoint]core.Driver
	closed bool
}

func newDrivers(makers map[string]DriverFunc) *drivers {
	return &drivers{makers: makers, made: map[Endpoint]core.Driver{}}
}

// check reports what would keep open from working.
func (d *drivers) check(e Endpoint) error {
	if scheme, _, _ := strings.Cut(e.URL, "://"); d.makers[scheme] == nil {
		return setupError("transport %s: this program has no driver for %s://", e.Name, scheme)
	}
	return nil
}

func (d *drivers) open(e Endpoint) (core.Driver, error) {
	if err := d.check(e); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, core.ErrClosed
	}
	if driver := d.made[e]; driver != nil {
		return driver, nil
	}
	scheme, _, _ := strings.Cut(e.URL, "://")
	driver, err := d.makers[scheme](e)
	if err != nil {
		return nil, err
	}
	d.made[e] = driver
	return driver, nil
}

// keep closes every driver but those of the given endpoints. The sources and
// publishers of the others are closed before.
func (d *drivers) keep(used map[Endpoint]bool, logger *slog.Logger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for e, driver := range d.made {
		if used[e] {
			continue
		}
		delete(d.made, e)
		if err := driver.Close(ctx); err != nil {
			logger.Warn("driver.close_failed", "transport", e.Name, "error", MaskURL(err.Error()))
		}
	}
}

// close closes every driver and makes no more.
func (d *drivers) close(logger *slog.Logger) {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.keep(nil, logger)
}
