package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

const whole = `
transports:
  redis: {url: "redis://:${PW}@127.0.0.1:6379/0"}
  dev: {url: "embedded://redis"}

defaults: &d
  concurrency: 16
  handler_timeout: 120s
  retry: {type: linear, max_attempts: 7, base_delay: 1s}
  retry_types: {"slow.*": {base_delay: 1m}}
  redis: {prefix: jobs}

processes:
  job-redis:
    transport: redis
    queue: orders
    types: ["order.*", "mail.*"]
    enabled: false
    replicas: 2
    concurrency: ${N:-32}
    handler_timeout: 0s
    shutdown_timeout: 1m30s
    max_size: 1MiB
    max_crashes: 3
    default_job_type: raw
    unregistered: retry
    log_success: true
    accept: [delay, order]
    retry: {jitter: 0}
    retry_types:
      "order.*": {type: fixed, max_attempts: 2}
    dead_letter: {max_len: 10, on_full: drop_oldest}
    restart: {initial: 1s, max: 1m, limit: 3}
    isolation: os
    memory_limit: 512MiB
    recycle: {jobs: 1000, memory: 256MiB, after: 24h}
    redis: {lease: 5s, delay_poll: 200ms, sweep: 1s, block: 2s, pool: 9}
  other: {transport: dev, queue: q}

handlers:
  order.paid: {http: {url: "http://127.0.0.1:8080/jobs", timeout: 10s}}
  order.export: {exec: {command: ["./export.sh", "$${HOME}"]}}
  "demo.*": {log: {}}

admin: {listen: "127.0.0.1:0", token: "${TOKEN:-}"}
`

func TestEveryValueReachesItsField(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, whole, environment{"PW": "hush-hush"})
	if want := []processes.Endpoint{{Name: "redis", URL: "redis://:hush-hush@127.0.0.1:6379/0"}, {Name: "dev", URL: "embedded://redis"}}; !reflect.DeepEqual(c.Transports, want) {
		t.Errorf("transports %+v", c.Transports)
	}
	retry := core.RetryPolicy{Type: core.RetryLinear, MaxAttempts: 7, BaseDelay: time.Second, Multiplier: 2, MaxDelay: 5 * time.Minute}
	fixed := retry
	fixed.Type, fixed.MaxAttempts = core.RetryFixed, 2
	want := config.Process{
		Spec: processes.Spec{
			Name: "job-redis", Transport: "redis", Queue: "orders", Types: []string{"order.*", "mail.*"},
			Replicas: 2, Concurrency: 32, Priority: core.PriorityNone, Ordering: core.OrderingNone, Format: core.FormatJob,
			Retry: retry, RetryTypes: []core.RetryRule{{Pattern: "order.*", Policy: fixed}},
			HandlerTimeout: -1, Grace: 2500 * time.Millisecond, ShutdownTimeout: 90 * time.Second,
			MaxCrashes: 3, MaxDefers: 1000, MaxStuck: 16, MaxSize: 1 << 20,
			DefaultJobType: "raw", RetryUnregistered: true, LogSuccess: true, Accept: []string{"delay", "order"},
			DeadLetter: processes.DeadLetter{Driver: processes.DeadAuto, Prefix: "job:dead:",
				DeadLetterPolicy: core.DeadLetterPolicy{MaxLen: 10, OnFull: core.OnFullDropOldest}},
			Restart:   processes.Restart{Initial: time.Second, Max: time.Minute, Limit: 3},
			Isolation: processes.IsolationOS, MemoryLimit: 512 << 20,
			Recycle: processes.Recycle{Jobs: 1000, Memory: 256 << 20, After: 24 * time.Hour},
		},
		Redis: config.Redis{Prefix: "jobs", KeyStyle: "hashtag", Lease: 5 * time.Second, DelayPoll: 200 * time.Millisecond,
			Sweep: time.Second, Block: 2 * time.Second, Pool: 9, DeadPrefix: "job:dead:"},
	}
	if got := c.Process("job-redis"); !reflect.DeepEqual(*got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *got, want)
	}
	encoded, err := json.Marshal(want) // as a child OS process gets it
	var decoded config.Process
	if err = errors.Join(err, json.Unmarshal(encoded, &decoded)); err != nil || !reflect.DeepEqual(decoded, want) {
		t.Errorf("through JSON it became %+v, %v", decoded, err)
	}
	other := c.Process("other")
	if !other.Enabled || other.Grace == 0 || other.Retry.Jitter != 0.2 || other.HandlerTimeout != 2*time.Minute ||
		len(other.RetryTypes) != 1 || other.RetryTypes[0].Policy.BaseDelay != time.Minute || other.RetryTypes[0].Policy.Type != core.RetryLinear {
		t.Errorf("other is %+v", other)
	}
	handlers := []config.Handler{
		{Pattern: "order.paid", HTTP: &config.HTTPHandler{URL: "http://127.0.0.1:8080/jobs", Timeout: 10 * time.Second}},
		{Pattern: "order.export", Exec: &config.ExecHandler{Command: []string{"./export.sh", "${HOME}"}}},
		{Pattern: "demo.*", Log: true},
	}
	if !reflect.DeepEqual(c.Handlers, handlers) {
		t.Errorf("handlers %+v", c.Handlers)
	}
	if c.Admin == nil || *c.Admin != (config.Admin{Listen: "127.0.0.1:0"}) {
		t.Errorf("admin %+v", c.Admin)
	}
	if c.Process("none") != nil {
		t.Error("there is no process none")
	}
}

func TestWhatIsWrittenNowhereIsBuiltIn(t *testing.T) {
	t.Parallel()
	got := mustLoad(t, small(), nil).Process("p").Spec
	want := processes.DefaultSpec()
	want.Name, want.Transport, want.Queue = "p", "r", "q"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestTheNearestLayerWins(t *testing.T) {
	t.Parallel()
	const defaults = "defaults:\n  retry: {max_attempts: 4, base_delay: 4s, multiplier: 4, max_delay: 44s}\n  handler_timeout: 4s\n  dead_letter: {driver: auto, prefix: \"four:\"}\n"
	env := environment{
		"JOB_MAX_ATTEMPTS": "3", "JOB_BASE_DELAY_MS": "3000", "JOB_BACKOFF_MULTIPLIER": "3", "JOB_MAX_DELAY_MS": "33000",
		"JOB_HANDLER_TIMEOUT_SECONDS": "3", "JOB_DLQ": "log_only", "JOB_DLQ_REDIS_PREFIX": "three:",
	}
	empty := environment{}
	for name := range env {
		empty[name] = ""
	}
	const process = "retry: {max_attempts: 2, base_delay: 2s, multiplier: 2.5, max_delay: 22s}\n    handler_timeout: 2s\n    dead_letter: {driver: redis_list, prefix: \"two:\"}"
	type values struct {
		attempts    int
		base        time.Duration
		multiplier  float64
		maximum     time.Duration
		timeout     time.Duration
		driver      processes.DeadDriver
		prefix      string
		wantsSource string
	}
	cases := map[string]struct {
		file string
		env  environment
		want values
	}{
		"a process over the environment": {defaults + small(process), env, values{2, 2 * time.Second, 2.5, 22 * time.Second, 2 * time.Second, "redis_list", "two:", "consumer.yaml:11"}},
		"the environment over defaults":  {defaults + small(), env, values{3, 3 * time.Second, 3, 33 * time.Second, 3 * time.Second, "log_only", "three:", "JOB_MAX_ATTEMPTS"}},
		"an empty variable is unset":     {defaults + small(), empty, values{4, 4 * time.Second, 4, 44 * time.Second, 4 * time.Second, "auto", "four:", "defaults (consumer.yaml:2)"}},
		"defaults over what is built in": {defaults + small(), nil, values{4, 4 * time.Second, 4, 44 * time.Second, 4 * time.Second, "auto", "four:", "defaults (consumer.yaml:2)"}},
		"what is built in":               {small(), nil, values{5, time.Second, 2, 5 * time.Minute, 2 * time.Minute, "auto", "job:dead:", "built-in"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded := mustLoad(t, c.file, c.env)
			p := loaded.Process("p")
			source := ""
			for _, v := range loaded.Values() {
				if v.Key == "processes.p.retry.max_attempts" {
					source = strings.ReplaceAll(v.Source, filepath.Dir(loaded.Path)+"/", "")
				}
			}
			got := values{p.Retry.MaxAttempts, p.Retry.BaseDelay, p.Retry.Multiplier, p.Retry.MaxDelay, p.HandlerTimeout,
				p.DeadLetter.Driver, p.DeadLetter.Prefix, source}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestABadVariableIsAFaultThatNamesIt(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"JOB_MAX_ATTEMPTS": "0", "JOB_BASE_DELAY_MS": "1s", "JOB_BACKOFF_MULTIPLIER": "x", "JOB_MAX_DELAY_MS": "-1",
		"JOB_HANDLER_TIMEOUT_SECONDS": "soon", "JOB_DLQ": "auto", "JOB_DLQ_REDIS_PREFIX": "a{b",
	} {
		_, err := load(t, small(), environment{name: value})
		lines := faultLines(t, err)
		if len(lines) != 1 || lines[0][:len("environment: "+name)] != "environment: "+name {
			t.Errorf("%s=%s: %q", name, value, lines)
		}
	}
}

func TestValuesExpand(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := environment{"SET": "value", "EMPTY": ""}
	for text, want := range map[string]string{
		"plain":                "plain",
		"${SET}":               "value",
		"<${SET}-${SET}>":      "<value-value>",
		"${UNSET:-default}":    "default",
		"${EMPTY:-default}":    "default",
		"${SET:-default}":      "value",
		"${UNSET:-}x":          "x",
		"${EMPTY}x":            "x",
		"$${SET} $SET":         "${SET} $SET",
		"file:" + secret:       "from a file",
		"file:relative/path":   "file:relative/path",
		"${UNSET:-redis://h}/": "redis://h/",
	} {
		c := mustLoad(t, small("default_job_type: \""+text+"\""), env)
		if got := c.Process("p").DefaultJobType; got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestAnchorsAndMergeKeysWork(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `transports: {r: {url: "redis://h"}}
processes:
  a: &a {transport: r, queue: a, concurrency: 3, retry: &r {max_attempts: 2}}
  b: {<<: *a, queue: b}
  c: {transport: r, queue: c, retry: *r}
  d: {<<: [*a, {queue: d, max_stuck: 9}], queue: e}
`, nil)
	b := c.Process("b")
	if b.Queue != "b" || b.Concurrency != 3 || b.Retry.MaxAttempts != 2 || c.Process("c").Retry.MaxAttempts != 2 {
		t.Errorf("b is %+v", b)
	}
	if d := c.Process("d"); d.Queue != "e" || d.Concurrency != 3 || d.MaxStuck != 9 {
		t.Errorf("d is %+v", d)
	}
}

func TestAFileMayComeFromAnyEditor(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"byte order mark": "\ufeff" + small("enabled: TRUE"),
		"Windows lines":   strings.ReplaceAll(small("enabled: True"), "\n", "\r\n"),
		"directive":       "%YAML 1.2\n---\n" + small("enabled: true"),
	} {
		if p := mustLoad(t, file, nil).Process("p"); p.Queue != "q" || !p.Enabled {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestTheFileIsFoundByFlagThenVariableThenName(t *testing.T) {
	t.Parallel()
	env := environment{"CONSUMER_CONFIG": "from-env.yaml"}
	for flag, want := range map[string]string{"flag.yaml": "flag.yaml", "": "from-env.yaml"} {
		if got := config.FindPath(flag, env.lookup); got != want {
			t.Errorf("%q: %q, want %q", flag, got, want)
		}
	}
	if got := config.FindPath("", environment{"CONSUMER_CONFIG": ""}.lookup); got != "consumer.yaml" {
		t.Errorf("got %q", got)
	}
}

func TestTheRedisThatKeepsDeadLettersIsFound(t *testing.T) {
	t.Parallel()
	const one = "transports:\n  r: {url: \"redis://h\"}\n  k: {url: \"kafka://h\"}\n"
	const two = one + "  r2: {url: \"redis://h2\"}\n"
	const process = "processes:\n  p: {transport: %, queue: q, dead_letter: {driver: redis_list#}}\n"
	cases := map[string]struct{ file, want, fault string }{
		"its own":               {two + with(process, "r2", ""), "r2", ""},
		"the only one":          {one + with(process, "k", ""), "r", ""},
		"the one that is named": {two + with(process, "k", ", transport: r2"), "r2", ""},
		"one of two":            {two + with(process, "k", ""), "", "6: processes.p keeps dead letters in a redis_list; set dead_letter.transport to the Redis transport that has it"},
		"one that is no Redis":  {one + with(process, "r", ", transport: k"), "", "5: processes.p.dead_letter.transport must name a Redis transport"},
	}
	for name, c := range cases {
		loaded, err := load(t, c.file, nil)
		switch {
		case c.fault != "":
			if got := faultLines(t, err); len(got) != 1 || got[0] != c.fault {
				t.Errorf("%s: %q, want %q", name, got, c.fault)
			}
		case err != nil || loaded.Process("p").DeadLetter.Transport != c.want:
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// with puts a transport and more dead_letter keys into a process.
func with(process, transport, more string) string {
	return strings.NewReplacer("%", transport, "#", more).Replace(process)
}

func TestAProgramsOwnDriversHaveTheirSchemes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "consumer.yaml")
	file := "transports: {n: {url: \"nats://h:4222\"}}\nprocesses: {p: {transport: n, queue: q}}\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path, config.Options{}); err == nil {
		t.Error("nats:// was taken without a driver")
	}
	c, err := config.Load(path, config.Options{Schemes: []string{"nats"}})
	if err != nil {
		t.Fatal(err)
	}
	if faults, warnings := c.Select(nil); len(faults)+len(warnings) > 0 {
		t.Errorf("got %v %v", faults, warnings)
	}
}
