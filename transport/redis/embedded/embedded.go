// Package embedded runs a Redis transport without a Redis: an in-process server
// for demos and examples. It keeps nothing when the program ends, and it cannot
// end a wait early, so a stop may take Block longer.
package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/transport/redis"
)

// Block is how long one wait may take, since the server cannot end it early: the
// bound of what a stop waits for. Other programs that use the server must set it, too.
const Block = 100 * time.Millisecond

// Driver is a redis.Driver with its server inside.
type Driver struct {
	*redis.Driver
	server *miniredis.Miniredis
}

var _ core.Driver = (*Driver)(nil)

// New starts the server and returns its driver; Close ends both. Options of a
// binding take the place of o.
func New(o redis.Options) (*Driver, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded redis: %w", err)
	}
	driver, err := redis.New("redis://"+server.Addr()+"/0", o)
	if err != nil {
		server.Close()
		return nil, err
	}
	return &Driver{Driver: driver, server: server}, nil
}

// Addr is the server's host:port, for other programs.
func (d *Driver) Addr() string { return d.server.Addr() }

// OpenSource is that of redis.Driver with short waits.
func (d *Driver) OpenSource(ctx context.Context, b core.Binding, n core.Notices) (core.Source, error) {
	var o redis.Options
	switch own := b.Options.(type) {
	case redis.Options:
		o = own
	case *redis.Options:
		o = *own
	}
	o.Block = Block
	b.Options = o
	return d.Driver.OpenSource(ctx, b, n)
}

// Close ends the driver and its server.
func (d *Driver) Close(ctx context.Context) error {
	err := d.Driver.Close(ctx)
	d.server.Close()
	return err
}
