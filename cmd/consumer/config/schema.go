package config

import (
	"math"
	"time"

	"github.com/goconsumer/consumer/processes"
)

// field is one key of the file: what may stand there, and what stands there when
// nobody wrote it. Exactly one of scalar, list, fields and each is set; an empty
// non-nil fields is a section without keys.
type field struct {
	name   string
	scalar parse
	list   parse   // each item of a list
	fields []field // a section
	each   *field  // a section with free keys, all of them like each; each.name says what a key is
	key    parse   // of each: checks the free key

	builtin any    // nil = none
	env     string // environment variable that stands between a process and defaults
	envRead parse  // nil = scalar
	secret  bool   // shown as ***
	// asWritten: shown with its ${VAR}, whose values may be secrets.
	asWritten bool
	family    string // a section that only transports of this family read

	// pending says whether a written value is one that this version cannot do
	// yet; nil = all are built.
	pending func(value any) bool
}

func written(any) bool { return true }

func nonZero(value any) bool { return value != 0 }

func fileFields(all []scheme) []field {
	process := processFields()
	return []field{
		{name: "transports", each: &field{name: "transport", key: name, fields: []field{
			{name: "url", scalar: endpointURL(all)},
			{name: "management", scalar: httpURL, pending: written},
			{name: "tls", pending: written, fields: []field{
				{name: "ca", scalar: nonEmpty},
				{name: "cert", scalar: nonEmpty},
				{name: "key", scalar: nonEmpty, secret: true},
				{name: "server_name", scalar: nonEmpty},
				{name: "insecure", scalar: boolean},
			}},
		}}},
		{name: "defaults", fields: process},
		{name: "processes", each: &field{name: "process", key: name, fields: process}},
		{name: "handlers", each: &field{name: "handler", key: nonEmpty, fields: handlerFields()}},
		{name: "admin", fields: []field{
			{name: "listen", scalar: hostPort, builtin: "127.0.0.1:9090"},
			{name: "token", scalar: anyText, secret: true},
		}},
		{name: "tracking", pending: written, fields: []field{
			{name: "transport", scalar: name},
			{name: "retention", scalar: duration(time.Second)},
		}},
	}
}

func handlerFields() []field {
	return []field{
		{name: "http", fields: []field{
			{name: "url", scalar: httpURL},
			{name: "timeout", scalar: duration(time.Millisecond)},
		}},
		{name: "exec", fields: []field{
			{name: "command", list: nonEmpty, asWritten: true},
		}},
		{name: "log", fields: []field{}},
	}
}

// minMemory is what a child OS process needs to start at all.
const minMemory = 32 << 20

func processFields() []field {
	d := processes.DefaultSpec()
	many := integer(1, math.MaxInt32)
	return []field{
		{name: "enabled", scalar: boolean, builtin: true},
		{name: "transport", scalar: name},
		{name: "queue", scalar: name},
		{name: "types", list: nonEmpty},
		{name: "replicas", scalar: integer(1, 1000), builtin: d.Replicas},
		{name: "concurrency", scalar: integer(1, 100_000), builtin: d.Concurrency},
		{name: "isolation", scalar: oneOf("goroutine", "os"), builtin: string(d.Isolation)},
		{name: "priority", scalar: oneOf("none", "levels"), builtin: string(d.Priority)},
		{name: "ordering", scalar: oneOf("none", "key", "partition", "queue"), builtin: string(d.Ordering)},
		{name: "handler_timeout", scalar: duration(0), builtin: d.HandlerTimeout,
			env: "JOB_HANDLER_TIMEOUT_SECONDS", envRead: whole(time.Second, 0)},
		{name: "shutdown_timeout", scalar: duration(time.Millisecond), builtin: d.ShutdownTimeout},
		{name: "max_crashes", scalar: many, builtin: d.MaxCrashes},
		{name: "max_defers", scalar: many, builtin: d.MaxDefers},
		{name: "max_stuck", scalar: many, builtin: d.MaxStuck},
		{name: "max_size", scalar: size(1), builtin: d.MaxSize},
		{name: "default_job_type", scalar: nonEmpty},
		{name: "format", scalar: oneOf("job", "delayqueue"), builtin: string(d.Format)},
		{name: "unregistered", scalar: oneOf("dead", "retry"), builtin: "dead"},
		{name: "log_success", scalar: boolean, builtin: d.LogSuccess},
		{name: "accept", list: oneOf("delay", "priority", "order", "retention")},
		{name: "retry", fields: retryFields(true)},
		{name: "retry_types", each: &field{name: "job type", key: nonEmpty, fields: retryFields(false)}},
		{name: "dead_letter", fields: []field{
			{name: "driver", scalar: oneOf("auto", "redis_list", "log_only"), builtin: string(d.DeadLetter.Driver),
				env: "JOB_DLQ", envRead: oneOf("redis_list", "log_only")},
			{name: "transport", scalar: name},
			{name: "prefix", scalar: keyPrefix, builtin: d.DeadLetter.Prefix, env: "JOB_DLQ_REDIS_PREFIX"},
			{name: "max_len", scalar: integer(0, math.MaxInt), builtin: int(d.DeadLetter.MaxLen)},
			{name: "on_full", scalar: oneOf("stop", "drop_oldest"), builtin: string(d.DeadLetter.OnFull)},
		}},
		{name: "restart", fields: []field{
			{name: "initial", scalar: duration(time.Millisecond), builtin: d.Restart.Initial},
			{name: "max", scalar: duration(time.Millisecond), builtin: d.Restart.Max},
			{name: "limit", scalar: integer(1, math.MaxInt32), builtin: d.Restart.Limit},
		}},
		{name: "recycle", fields: []field{
			{name: "jobs", scalar: many},
			{name: "memory", scalar: size(minMemory)},
			{name: "after", scalar: duration(time.Second)},
		}},
		{name: "memory_limit", scalar: size(minMemory)},
		{name: "delay_tiers", list: duration(time.Millisecond), family: "amqp kafka"},
		{name: "redis", family: "redis", fields: redisFields()},
		{name: "amqp", family: "amqp", fields: amqpFields()},
		{name: "kafka", family: "kafka", fields: kafkaFields()},
	}
}

// retryFields are the keys of a retry policy. Those of a type have no defaults of
// their own: they fall back to the process's policy.
func retryFields(ofProcess bool) []field {
	p := processes.DefaultSpec().Retry
	fields := []field{
		{name: "type", scalar: oneOf("exponential", "fixed", "linear"), builtin: string(p.Type)},
		{name: "max_attempts", scalar: integer(1, math.MaxInt32), builtin: p.MaxAttempts, env: "JOB_MAX_ATTEMPTS"},
		{name: "base_delay", scalar: duration(0), builtin: p.BaseDelay,
			env: "JOB_BASE_DELAY_MS", envRead: whole(time.Millisecond, 0)},
		{name: "multiplier", scalar: number(1, 1000), builtin: p.Multiplier, env: "JOB_BACKOFF_MULTIPLIER"},
		{name: "max_delay", scalar: duration(time.Millisecond), builtin: p.MaxDelay,
			env: "JOB_MAX_DELAY_MS", envRead: whole(time.Millisecond, 1)},
		{name: "jitter", scalar: number(0, 1), builtin: p.Jitter},
	}
	if !ofProcess {
		for i := range fields {
			fields[i].builtin, fields[i].env = nil, ""
		}
	}
	return fields
}

func redisFields() []field {
	return []field{
		{name: "prefix", scalar: keyPrefix, builtin: "dq"},
		{name: "key_style", scalar: oneOf("hashtag", "plain", "swoolefy"), builtin: "hashtag"},
		{name: "keys", fields: []field{
			{name: "ready", scalar: nonEmpty},
			{name: "priority", scalar: nonEmpty},
			{name: "delay", scalar: nonEmpty},
			{name: "dead", scalar: nonEmpty},
		}},
		{name: "lease", scalar: duration(time.Second), builtin: 15 * time.Second},
		{name: "delay_poll", scalar: duration(time.Millisecond), builtin: time.Second},
		{name: "sweep", scalar: duration(time.Millisecond)},
		{name: "block", scalar: duration(time.Millisecond)},
		{name: "pool", scalar: integer(1, 100_000)},
		{name: "wait_replicas", scalar: integer(0, 1000), builtin: 0, pending: nonZero},
	}
}

func amqpFields() []field {
	return []field{
		{name: "queue_type", scalar: oneOf("quorum", "classic")},
		{name: "declare", scalar: oneOf("auto", "passive", "none")},
		{name: "delay", scalar: oneOf("tiers", "plugin", "ttl")},
		{name: "delay_queue", scalar: name},
		{name: "prefetch", scalar: integer(0, math.MaxUint16)},
		{name: "exchange", scalar: nonEmpty},
		{name: "routing_key", scalar: anyText},
		{name: "arguments", each: &field{name: "argument", key: nonEmpty, scalar: anyText}},
		{name: "dead_exchange", scalar: nonEmpty},
		{name: "dead_routing_key", scalar: anyText},
		{name: "dead_queue", scalar: name},
	}
}

func kafkaFields() []field {
	return []field{
		{name: "group", scalar: name},
		{name: "start", scalar: oneOf("earliest", "latest")},
		{name: "declare", scalar: oneOf("auto", "passive", "none")},
		{name: "partitions", scalar: integer(1, 100_000)},
		{name: "replication", scalar: integer(1, 100)},
		{name: "retry_order", scalar: oneOf("relaxed", "strict")},
		{name: "window", scalar: integer(1, math.MaxInt32)},
		{name: "protocol", scalar: oneOf("classic", "next")},
		{name: "mode", scalar: oneOf("group", "share")},
		{name: "static_id", scalar: name},
		{name: "session_timeout", scalar: duration(time.Second)},
		{name: "rebalance_timeout", scalar: duration(time.Second)},
	}
}
