package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

// texts are faults as "line: text".
func texts(faults config.Faults) []string {
	out := []string{}
	for _, f := range faults {
		out = append(out, strconv.Itoa(f.Line)+": "+f.Text)
	}
	return out
}

const mixed = `transports:
  redis: {url: "redis://127.0.0.1:6379/0"}
  rabbit: {url: "amqp://guest:guest@127.0.0.1:5672/"}
  unused: {url: "kafka://127.0.0.1:9092"}
processes:
  good: {transport: redis, queue: q}
  amqp: {transport: rabbit, queue: q, enabled: false, delay_tiers: [10s, 1m], amqp: {queue_type: quorum, delay: tiers}}
  late:
    transport: redis
    queue: q
    priority: levels
    redis: {key_style: plain, wait_replicas: 1}
    amqp: {prefetch: 5}
tracking: {transport: redis, retention: 24h}
`

func TestWhatIsNotBuiltStopsOnlyTheProcessesThatUseIt(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, mixed, nil)
	amqp := `7: processes.amqp uses the transport rabbit, and amqp:// is not built yet`
	late := []string{
		`12: redis.wait_replicas: 1 is not built yet (process late)`,
	}
	unused := `4: transports.unused: kafka:// is not built yet`
	noEffect := `13: processes.late.amqp has no effect: redis is not such a transport`
	tracking := `14: tracking is not built yet: jobs run without it`

	cases := map[string]struct {
		names            []string
		faults, warnings []string
	}{
		"a good one":             {[]string{"good"}, nil, slices.Concat([]string{unused, amqp}, late, []string{noEffect, tracking})},
		"one on RabbitMQ":        {[]string{"good", "amqp"}, []string{amqp}, slices.Concat([]string{unused}, late, []string{noEffect, tracking})},
		"all that are enabled":   {nil, late, []string{unused, amqp, noEffect, tracking}},
		"one with three of them": {[]string{"late"}, late, []string{unused, amqp, noEffect, tracking}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, warnings := c.Select(test.names)
			if got := texts(faults); !slices.Equal(got, test.faults) {
				t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.faults, "\n"))
			}
			if got := texts(warnings); !slices.Equal(got, test.warnings) {
				t.Errorf("warnings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.warnings, "\n"))
			}
		})
	}
}

func TestADefaultThatIsNotBuiltCountsForWhoeverInheritsIt(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "defaults: {redis: {wait_replicas: 1}}\n"+small()+"  q: {transport: r, queue: q, redis: {wait_replicas: 0}}\n", nil)
	if faults, _ := c.Select([]string{"q"}); len(faults) != 0 {
		t.Errorf("q: %v", faults)
	}
	faults, _ := c.Select([]string{"p"})
	if got := texts(faults); !slices.Equal(got, []string{"1: redis.wait_replicas: 1 is not built yet (process p)"}) {
		t.Errorf("p: %q", got)
	}
}

func TestEmbeddedBrokersStandInForTransportsThatAreNotBuilt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "consumer.yaml")
	if err := os.WriteFile(path, []byte(mixed), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Options{Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	faults, warnings := c.Select([]string{"good", "amqp"})
	want := []string{
		`7: processes.amqp.delay_tiers has no effect: rabbit is not such a transport`,
		`7: processes.amqp.amqp has no effect: rabbit is not such a transport`,
	}
	if len(faults) > 0 || !slices.Equal(texts(warnings)[1:3], want) {
		t.Errorf("faults %q, warnings %q", texts(faults), texts(warnings))
	}
}

// TestEveryKeyOfTheContractIsKnown: a file with every key loads without a fault.
func TestEveryKeyOfTheContractIsKnown(t *testing.T) {
	t.Parallel()
	mustLoad(t, `
transports:
  redis: {url: "redis://127.0.0.1:6379/0"}
  secure: {url: "rediss://127.0.0.1:6379/0", tls: {ca: ca.pem}}
  sentinel: {url: "redis+sentinel://h1,h2/?master=m"}
  cluster: {url: "redis+cluster://h1,h2"}
  rabbit: {url: "amqp://guest:guest@127.0.0.1:5672/", management: "http://127.0.0.1:15672"}
  rabbits: {url: "amqps://guest:guest@h1:5672,h2:5672/"}
  kafka: {url: "kafka://127.0.0.1:9092"}
  kafkas: {url: "kafka+tls://user:pass@h1,h2?sasl=scram-sha-512"}
  dev: {url: "embedded://redis"}
  devk: {url: "embedded://kafka"}
defaults:
  concurrency: 16
  handler_timeout: 120s
  shutdown_timeout: 25s
  max_crashes: 5
  retry: {type: exponential, max_attempts: 5, base_delay: 1s, multiplier: 2.0, max_delay: 5m, jitter: 0.2}
  dead_letter: {driver: auto, max_len: 0, on_full: stop}
processes:
  job-redis:
    transport: redis
    queue: orders
    types: ["order.*"]
    concurrency: 32
    priority: none
    ordering: none
    enabled: true
    replicas: 1
    isolation: os
    default_job_type: x
    format: job
    max_size: 1000
    max_defers: 1000
    max_stuck: 16
    unregistered: dead
    retry_types: {"order.*": {max_attempts: 1}}
    log_success: false
    accept: [delay, priority, order, retention]
    recycle: {jobs: 1, memory: 1GiB, after: 1h}
    restart: {initial: 1s, max: 1m, limit: 5}
    memory_limit: 1GiB
    dead_letter: {driver: redis_list, transport: redis}
    redis: {prefix: dq, key_style: hashtag, lease: 15s, delay_poll: 1s, wait_replicas: 0, keys: {ready: a, priority: b, delay: c, dead: d}, sweep: 1s, block: 1s, pool: 10}
  job-amqp:
    transport: rabbit
    queue: orders
    delay_tiers: [10s, 1m, 10m, 1h, 24h]
    amqp: {queue_type: quorum, declare: auto, delay: tiers, prefetch: 0, exchange: e, routing_key: k, arguments: {x-max-length: 10}, dead_exchange: e, dead_routing_key: k, dead_queue: q, delay_queue: d}
  job-kafka:
    transport: kafka
    queue: orders
    ordering: key
    kafka: {group: job-kafka, start: earliest, retry_order: relaxed, declare: auto, partitions: 4, replication: 1, window: 100, protocol: next, mode: group, static_id: a, session_timeout: 45s, rebalance_timeout: 60s}
handlers:
  order.paid.notify: {http: {url: "http://127.0.0.1:8080/jobs", timeout: 10s}}
  order.export: {exec: {command: ["./export.sh"]}}
  "demo.*": {log: {}}
admin: {listen: "127.0.0.1:9090", token: "${CONSUMER_TOKEN:-}"}
tracking: {transport: redis, retention: 24h}
`, nil)
}
