// Package config reads the YAML file of the stock binary: every value is
// resolved, every fault is reported with its line.
package config

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/goconsumer/consumer/processes"
)

// Config is a file with every value resolved.
type Config struct {
	Path       string
	Transports []processes.Endpoint // in file order
	Processes  []*Process           // in file order
	Handlers   []Handler            // in file order
	Admin      *Admin               // nil: no admin address

	notBuilt []notBuilt
	values   []Value
}

// Process is one process of the file. Spec.Options is not set: the program puts
// the driver's options there, made from Redis.
type Process struct {
	processes.Spec
	Enabled bool // false: --all leaves it out
	Redis   Redis
}

// Redis are a process's redis keys.
type Redis struct {
	Prefix       string        // default dq
	KeyStyle     string        // hashtag, plain, swoolefy; default hashtag
	Keys         RedisKeys     // own names; "" = the style's
	Lease        time.Duration // default 15s
	DelayPoll    time.Duration // default 1s
	Sweep        time.Duration // 0 = the driver's default
	Block        time.Duration // 0 = the driver's default
	Pool         int           // 0 = the driver's default
	WaitReplicas int           // 0
	DeadPrefix   string        // JOB_DLQ_REDIS_PREFIX; default job:dead:
}

// RedisKeys are names of keys that take the place of the key style's.
type RedisKeys struct{ Ready, Priority, Delay, Dead string }

// Handler is one entry of handlers. Exactly one of HTTP, Exec and Log is set.
type Handler struct {
	Pattern string
	HTTP    *HTTPHandler
	Exec    *ExecHandler
	Log     bool
}

// HTTPHandler posts the envelope to URL.
type HTTPHandler struct {
	URL     string        // may hold a password
	Timeout time.Duration // 0 = the process's handler_timeout alone
}

// ExecHandler runs a command.
type ExecHandler struct {
	Command []string
}

// Admin is the admin address.
type Admin struct {
	Listen string
	Token  string // secret
}

// Value is one effective value, for people.
type Value struct {
	Key    string // e.g. processes.job-redis.concurrency
	Text   string // secrets masked
	Source string // consumer.yaml:12, JOB_MAX_ATTEMPTS, defaults (consumer.yaml:5), built-in
}

// Options say what the program around the file can do.
type Options struct {
	LookupEnv func(string) (string, bool) // default os.LookupEnv
	Schemes   []string                    // URL schemes of further drivers that the program has
	// Embedded: every transport is replaced by an embedded Redis, so that it does
	// not matter which of them are built.
	Embedded bool
}

// FindPath is where the file is: flag, else $CONSUMER_CONFIG, else
// ./consumer.yaml. A nil lookupEnv is os.LookupEnv.
func FindPath(flag string, lookupEnv func(string) (string, bool)) string {
	if flag != "" {
		return flag
	}
	if lookupEnv == nil {
		lookupEnv = os.LookupEnv
	}
	if path, _ := lookupEnv("CONSUMER_CONFIG"); path != "" {
		return path
	}
	return "consumer.yaml"
}

// Load reads and checks the file. Its error is Faults, sorted by line; a file
// that can't be read is one fault.
func Load(path string, opts Options) (*Config, error) {
	if opts.LookupEnv == nil {
		opts.LookupEnv = os.LookupEnv
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, Faults{{File: path, Text: "can't be read (" + reason(err) + "); name the file with --config or $CONSUMER_CONFIG"}}
	}
	l := newLoader(path, opts)
	l.load(body)
	if len(l.faults) > 0 {
		l.faults.sort()
		return nil, l.faults
	}
	return l.config, nil
}

func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// Process finds a process by name, nil when there is none.
func (c *Config) Process(name string) *Process {
	for _, p := range c.Processes {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Select checks what the named processes (nil = all enabled ones) would use:
// faults are the keys and transports among it that are not built yet, warnings
// those of the rest of the file and keys without effect.
func (c *Config) Select(names []string) (faults, warnings Faults) {
	selected := map[string]bool{}
	for _, p := range c.Processes {
		selected[p.Name] = names == nil && p.Enabled || slices.Contains(names, p.Name)
	}
	for _, n := range c.notBuilt {
		if selected[n.process] {
			faults = append(faults, n.fault)
		} else {
			warnings = append(warnings, n.fault)
		}
	}
	faults.sort()
	warnings.sort()
	return slices.Compact(faults), slices.Compact(warnings)
}

// Values lists every effective value: transports, processes, handlers, the rest.
func (c *Config) Values() []Value { return c.values }

// notBuilt is a key or value that this version knows and does nothing with yet.
type notBuilt struct {
	fault   Fault
	process string // "" = no process needs it
}
