package redis

import (
	"fmt"
	"time"

	"github.com/goconsumer/consumer/core"
)

// KeyStyle says how the names of a queue's keys are made.
type KeyStyle string

const (
	// KeyStyleHashtag puts the queue's name in braces, so that all keys of a queue
	// are in one Cluster slot.
	KeyStyleHashtag KeyStyle = "hashtag"
	// KeyStylePlain has no braces.
	KeyStylePlain KeyStyle = "plain"
	// KeyStyleSwoolefy has the ready, priority, delay and dead-letter keys of
	// Swoolefy's queues, with due times in seconds; its producers and consumers work
	// on them at the same time. The driver's own keys are those of hashtag.
	KeyStyleSwoolefy KeyStyle = "swoolefy"
)

// Keys are names of keys that take the place of the style's. All of a queue's keys
// must be in one slot on a Cluster.
type Keys struct {
	Ready    string // the plain list
	Priority string // one list that runs first, in the place of those of critical, high and medium
	Delay    string
	Dead     string // where malformed input is kept apart (see doc.go), with :raw added for that
}

// Options of a process on Redis. Zero fields take the stated defaults.
type Options struct {
	Prefix     string        // of every key but the dead letters; default "dq"
	KeyStyle   KeyStyle      // default hashtag
	Keys       Keys          // default: those of KeyStyle
	DeadPrefix string        // of the dead-letter list; default "job:dead:"
	Lease      time.Duration // a consumer that is silent for longer counts as dead; default 15s, at least 1s
	DelayPoll  time.Duration // a delayed job that another program stored is seen within it; default 1s
	Block      time.Duration // how long one wait for a job takes at the server; default 5s
	Sweep      time.Duration // between two looks for orphans; default half of Lease
	Pool       int           // connections for commands of one driver; default 10; read by New alone
	// WaitReplicas is how many replicas must confirm; anything but 0 is refused
	// until it is built.
	WaitReplicas int
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "dq"
	}
	if o.KeyStyle == "" {
		o.KeyStyle = KeyStyleHashtag
	}
	if o.DeadPrefix == "" {
		o.DeadPrefix = "job:dead:"
	}
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.DelayPoll <= 0 {
		o.DelayPoll = time.Second
	}
	if o.Block <= 0 {
		o.Block = 5 * time.Second
	}
	if o.Sweep <= 0 {
		o.Sweep = o.Lease / 2
	}
	if o.Pool <= 0 {
		o.Pool = 10
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.KeyStyle != KeyStyleHashtag && o.KeyStyle != KeyStylePlain && o.KeyStyle != KeyStyleSwoolefy:
		return &core.SetupError{Sentence: fmt.Sprintf("redis.key_style %q is unknown: use hashtag, plain or swoolefy", o.KeyStyle)}
	case o.WaitReplicas != 0:
		return &core.SetupError{Sentence: "redis.wait_replicas is not built yet: leave it out"}
	case o.Lease < time.Second:
		return &core.SetupError{Sentence: fmt.Sprintf("redis.lease is %s: set at least 1s", o.Lease)}
	}
	return nil
}
