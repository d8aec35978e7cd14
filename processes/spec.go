package processes

import (
	"cmp"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Spec is one named consumer: a queue on a transport, the job types it runs and
// its policy. The zero value of a field means its default.
type Spec struct {
	Name      string   // letters, digits, dot, underscore, hyphen; at most 120
	Transport string   // the name of an Endpoint
	Queue     string   // list, queue or topic
	Types     []string // patterns of the types it runs; nil = every registered one

	Replicas    int // engines side by side; default 1
	Concurrency int // handlers at once in each replica; default 16
	Priority    core.PriorityMode
	Ordering    core.Ordering

	Retry           core.RetryPolicy
	RetryTypes      []core.RetryRule
	HandlerTimeout  time.Duration // default 120s; negative = none
	Grace           time.Duration // between a handler's cancellation and its being stuck; default 200ms
	ShutdownTimeout time.Duration // a soft stop becomes hard after it; default 25s

	MaxCrashes        int // default 5
	MaxDefers         int // default 1000
	MaxStuck          int // default 16
	MaxSize           int // bytes of a body; default 16 MiB
	DefaultJobType    string
	Format            core.Format // of the jobs on the wire; default core.FormatJob
	RetryUnregistered bool
	LogSuccess        bool     // job.done lines at info, not debug
	Accept            []string // weakenings agreed to: delay, priority, order, retention

	DeadLetter DeadLetter
	Restart    Restart
	Options    any // the driver's own options; nil = its defaults

	Isolation   Isolation
	MemoryLimit int64 // bytes that a child OS process may use; past it it is killed and started again; 0 = no limit; needs IsolationOS
	Recycle     Recycle

	// Revision stands for whatever else the process depends on, for example its
	// handlers: Reload restarts a process whose Revision changed.
	Revision string
}

// Isolation says where a process's replicas run.
type Isolation string

const (
	IsolationGoroutine Isolation = "goroutine" // in this OS process; the default
	IsolationOS        Isolation = "os"        // each in a child OS process of its own; needs Options.Child
)

// Recycle says when a replica is stopped softly and started afresh, for handlers
// that leak. 0 = never. What ends so is no crash.
type Recycle struct {
	Jobs   int           // after at least so many finished jobs
	Memory int64         // once its child OS process uses so many bytes; needs IsolationOS
	After  time.Duration // after so long, and up to a tenth more so that replicas don't go at once
}

// DeadDriver says where a process keeps its dead letters.
type DeadDriver string

const (
	DeadAuto      DeadDriver = "auto"       // the transport's own place; the default
	DeadRedisList DeadDriver = "redis_list" // a list on a Redis transport
	DeadLogOnly   DeadDriver = "log_only"   // nowhere: logged and gone, with a warning at every start
)

// DeadLetter is a process's dead-letter policy.
type DeadLetter struct {
	Driver    DeadDriver
	Transport string // redis_list: the Endpoint that has the list; "" = the process's own
	Prefix    string // of a Redis list: before the queue's name; default job:dead:
	core.DeadLetterPolicy
}

// Restart bounds how a replica that ended by itself is started again. A broker
// that cannot be reached is tried for ever and never counts towards Limit.
type Restart struct {
	Initial time.Duration // first wait; default 200ms
	Max     time.Duration // longest wait; default 5s
	// Limit: a child OS process that vanished while jobs ran, or after it had finished
	// some, does not count: it can work, and max_crashes bounds what one job can do.
	Limit int // crashes in a row, none of them up for as long as Max (at least 10s), before the process stops; default 5, negative = no limit
}

// Endpoint is a named broker address. Its URL may hold a password: print it with
// MaskURL only.
type Endpoint struct {
	Name string
	URL  string
}

// DefaultSpec holds the default of every field that has one.
func DefaultSpec() Spec {
	return Spec{
		Replicas:        1,
		Concurrency:     16,
		Priority:        core.PriorityNone,
		Ordering:        core.OrderingNone,
		Retry:           core.DefaultRetryPolicy(),
		HandlerTimeout:  120 * time.Second,
		ShutdownTimeout: 25 * time.Second,
		MaxCrashes:      5,
		MaxDefers:       1000,
		MaxStuck:        16,
		MaxSize:         16 << 20,
		Format:          core.FormatJob,
		DeadLetter: DeadLetter{
			Driver:           DeadAuto,
			Prefix:           "job:dead:",
			DeadLetterPolicy: core.DeadLetterPolicy{OnFull: core.OnFullStop},
		},
		Isolation: IsolationGoroutine,
		Restart:   Restart{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Limit: 5},
	}
}

// withDefaults returns s with its zero fields filled. The retry policy, the grace
// period and the limits 0 are left to the engine, which knows their defaults.
func (s Spec) withDefaults() Spec {
	d := DefaultSpec()
	s.Replicas = cmp.Or(s.Replicas, d.Replicas)
	s.Concurrency = cmp.Or(s.Concurrency, d.Concurrency)
	s.Priority = cmp.Or(s.Priority, d.Priority)
	s.Ordering = cmp.Or(s.Ordering, d.Ordering)
	s.Format = cmp.Or(s.Format, d.Format)
	s.HandlerTimeout = max(0, cmp.Or(s.HandlerTimeout, d.HandlerTimeout))
	s.ShutdownTimeout = cmp.Or(s.ShutdownTimeout, d.ShutdownTimeout)
	s.DeadLetter.Driver = cmp.Or(s.DeadLetter.Driver, d.DeadLetter.Driver)
	s.DeadLetter.Prefix = cmp.Or(s.DeadLetter.Prefix, d.DeadLetter.Prefix)
	s.DeadLetter.OnFull = cmp.Or(s.DeadLetter.OnFull, d.DeadLetter.OnFull)
	s.Isolation = cmp.Or(s.Isolation, d.Isolation)
	s.Restart.Initial = cmp.Or(s.Restart.Initial, d.Restart.Initial)
	s.Restart.Max = cmp.Or(s.Restart.Max, d.Restart.Max)
	s.Restart.Limit = cmp.Or(s.Restart.Limit, d.Restart.Limit)
	return s
}
