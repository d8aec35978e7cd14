package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/goconsumer/consumer/core"
)

// How long one command may take. A driver that waits longer for an answer cannot
// tell a slow server from a dead one before its lease is in danger.
const (
	dialTimeout    = 2 * time.Second
	commandTimeout = 3 * time.Second
)

// Driver is one Redis endpoint. Its sources and publishers share one client for
// commands; each wait at the server has a connection of its own. It is safe for
// concurrent use.
type Driver struct {
	options  Options
	client   *goredis.Client
	template goredis.Options // for the connections that wait
	scripts  scripts
}

var (
	_ core.Driver      = (*Driver)(nil)
	_ core.Inspector   = (*Driver)(nil)
	_ core.QueuePauser = (*Driver)(nil)
)

// New reads a redis:// or rediss:// URL and connects when it is first used.
// options are the defaults for bindings that bring none of their own.
func New(url string, options Options) (*Driver, error) {
	parsed, err := goredis.ParseURL(url)
	if err != nil || !strings.HasPrefix(url, "redis") {
		// Whatever the parser says may quote the password.
		return nil, &core.SetupError{Sentence: "the URL of a redis transport cannot be read: write redis:// or rediss://user:password@host:port/database and percent-encode special characters of the password"}
	}
	return newDriver(*parsed, options)
}

func newDriver(template goredis.Options, options Options) (*Driver, error) {
	if err := options.withDefaults().check(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	template.MaxRetries = -1 // a call whose reply was lost is never repeated behind our back
	template.DialerRetries = 1
	template.DialTimeout = dialTimeout
	template.ReadTimeout = commandTimeout
	template.WriteTimeout = commandTimeout
	template.PoolTimeout = commandTimeout
	template.ContextTimeoutEnabled = true
	template.PipelinePoolSize = -1
	template.PoolSize = options.Pool
	template.DisableIdentity = true
	template.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	shared := template
	return &Driver{options: options, client: goredis.NewClient(&shared), template: template, scripts: newScripts()}, nil
}

// QuietClient turns off the client library's own log lines, for the whole
// program: the driver reports what fails itself, and in the program's own form.
func QuietClient() { logging.Disable() }

// Close ends the connections. Sources and publishers are closed before.
func (d *Driver) Close(context.Context) error { return d.client.Close() }

// optionsOf are the binding's own options, or the driver's.
func (d *Driver) optionsOf(b core.Binding) (Options, error) {
	o := d.options
	switch own := b.Options.(type) {
	case nil:
	case Options:
		o = own.withDefaults()
	case *Options:
		o = own.withDefaults()
	default:
		return o, &core.SetupError{Sentence: fmt.Sprintf("process %s has options of type %T: a redis transport takes redis.Options", b.Process, own)}
	}
	return o, o.check()
}

// failure wraps an error for people: what was done, at which server, and what it
// means where that is known. The server's address carries no password.
func (d *Driver) failure(doing string, err error) error {
	if err == nil {
		return nil
	}
	if isReply(err) {
		return fmt.Errorf("%s: redis at %s answered: %w", doing, d.template.Addr, err)
	}
	return fmt.Errorf("%s: redis at %s cannot be reached: %w", doing, d.template.Addr, err)
}

// isReply says whether err is the server's own answer. Anything else leaves open
// whether the server carried the call out.
func isReply(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}

// remedy says what helps when no retry can; "" for every other error.
func remedy(err error) string {
	if !isReply(err) {
		return ""
	}
	for _, r := range [...]struct{ part, fix string }{
		{"NOAUTH", "put user and password into the URL"},
		{"WRONGPASS", "correct user and password in the URL"},
		{"NOPERM", "give the redis user of this URL access to the keys and commands of the queue"},
		{"The user executing the script can't", "give the redis user of this URL access to the keys and commands of the queue"},
		{"DB index is out of range", "end the URL in the number of a database that the server has"},
		{"unknown command", "use a Redis from 7.0 that has the command"},
	} {
		if strings.Contains(err.Error(), r.part) {
			return r.fix
		}
	}
	return ""
}

// dialer is the client's own, for a connection that its owner can break.
func dialer(o *goredis.Options) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain := &net.Dialer{Timeout: o.DialTimeout}
		if o.TLSConfig == nil {
			return plain.DialContext(ctx, network, address)
		}
		return (&tls.Dialer{NetDialer: plain, Config: o.TLSConfig}).DialContext(ctx, network, address)
	}
}
