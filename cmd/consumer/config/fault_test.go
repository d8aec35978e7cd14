package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

func TestEveryFaultOfAFileIsReportedInOrder(t *testing.T) {
	t.Parallel()
	_, err := load(t, `transports:
  redis: {url: "redis://127.0.0.1:6379/0"}
processes:
  job-redis:
    transport: rediss
    queue: orders
    concurency: 32
    handler_timeout: 30
handlers:
  a: {http: {url: "http://127.0.0.1/"}, exec: {command: [x]}}
`, nil)
	want := []string{
		`5: processes.job-redis.transport names an unknown transport "rediss"; did you mean "redis"?`,
		`7: unknown key "concurency" in processes.job-redis; did you mean "concurrency"?`,
		`8: processes.job-redis.handler_timeout needs a unit: 500ms, 30s, 5m or 1h`,
		`10: handlers.a has http and exec; it must have one of them`,
	}
	if got := faultLines(t, err); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEachFaultHasItsLineAndSentence(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		file string
		want string // all its faults
	}{
		"typo at the top":          {"transport:\n  r: {}\n" + strings.Replace(small(), "transports:", "transports:", 1), `1: unknown key "transport"; did you mean "transports"?`},
		"swapped letters":          {small("qeueu: x"), `7: unknown key "qeueu" in processes.p; did you mean "queue"?`},
		"nested typo":              {small("retry: {max_atempts: 3}"), `7: unknown key "max_atempts" in processes.p.retry; did you mean "max_attempts"?`},
		"duplicate key":            {small("queue: other"), `7: "queue" is there twice, first in line 6`},
		"not a number":             {small("concurrency: many"), `7: processes.p.concurrency must be a whole number from 1 to 100000`},
		"fraction":                 {small("concurrency: 1.5"), `7: processes.p.concurrency must be a whole number from 1 to 100000`},
		"negative":                 {small("replicas: -1"), `7: processes.p.replicas must be a whole number from 1 to 1000`},
		"zero attempts":            {small("retry: {max_attempts: 0}"), `7: processes.p.retry.max_attempts must be a whole number, at least 1`},
		"negative duration":        {small("handler_timeout: -5s"), `7: processes.p.handler_timeout must not be negative`},
		"zero without unit":        {small("handler_timeout: 0"), `7: processes.p.handler_timeout needs a unit: 500ms, 30s, 5m or 1h`},
		"nonsense duration":        {small("handler_timeout: soon"), `7: processes.p.handler_timeout must be a duration with a unit: 500ms, 30s, 5m or 1h`},
		"list for a value":         {small("concurrency: [1]"), `7: processes.p.concurrency must be a single value`},
		"value for a list":         {small("types: order.*"), `7: processes.p.types must be a list, for example [a, b]`},
		"value for a section":      {small("retry: 3"), `7: processes.p.retry must be a section of keys and values`},
		"nothing for a value":      {small("concurrency:"), `7: processes.p.concurrency has no value`},
		"jitter too large":         {small("retry: {jitter: 2}"), `7: processes.p.retry.jitter must be a number from 0 to 1`},
		"not a number at all":      {small("retry: {multiplier: .nan}"), `7: processes.p.retry.multiplier must be a number from 1 to 1000`},
		"unknown enum":             {small("isolation: thread"), `7: processes.p.isolation must be goroutine or os`},
		"unknown weakening":        {small("accept: [speed]"), `7: each item of processes.p.accept must be delay or priority or order or retention`},
		"one key for two":          {small(`redis: {keys: {ready: a, delay: a}}`), `7: processes.p.redis.keys.delay is the same key as ready; give each a name of its own`},
		"plain keys on a Cluster":  {strings.Replace(small("redis: {key_style: plain}"), "redis://", "redis+cluster://", 1), `7: processes.p.redis.key_style must be hashtag on a Cluster, so that all keys of the queue are in one slot`},
		"bad queue name":           {small("dead_letter: {transport: \"a b\"}"), `7: processes.p.dead_letter.transport must be 1 to 120 of the characters A-Z a-z 0-9 . _ -`},
		"unknown dead transport":   {small("dead_letter: {driver: redis_list, transport: s}"), `7: processes.p.dead_letter.transport names an unknown transport "s"; did you mean "r"?`},
		"process without queue":    {"transports:\n  r: {url: \"redis://h\"}\nprocesses:\n  p: {transport: r}\n", `4: processes.p has no queue`},
		"transport without url":    {"transports:\n  r: {}\nprocesses:\n  p: {transport: r, queue: q}\n", `2: transports.r has no url`},
		"several hosts":            {"transports:\n  r: {url: \"redis://h1,h2/0\"}\nprocesses:\n  p: {transport: r, queue: q}\n", `2: transports.r.url has several hosts, as only redis+sentinel:// and redis+cluster:// do`},
		"port out of range":        {"transports:\n  r: {url: \"redis://h:99999/0\"}\nprocesses:\n  p: {transport: r, queue: q}\n", `2: transports.r.url must have a port from 1 to 65535`},
		"unknown parameter":        {"transports:\n  r: {url: \"redis://:hush-hush@h/0?dial_timout=1s\"}\nprocesses:\n  p: {transport: r, queue: q}\n", `2: transports.r.url has a wrong parameter: unexpected option: dial_timout`},
		"unknown scheme":           {"transports:\n  r: {url: \"reds://h\"}\nprocesses:\n  p: {transport: r, queue: q}\n", `2: transports.r.url has the unknown scheme "reds"; did you mean "redis"?`},
		"no scheme":                {"transports:\n  r: {url: h}\nprocesses:\n  p: {transport: r, queue: q}\n", `2: transports.r.url has no scheme: write for example redis://127.0.0.1:6379/0`},
		"bad process name":         {"transports:\n  r: {url: \"redis://h\"}\nprocesses:\n  \"p p\": {transport: r, queue: q}\n", `4: the name of a process must be 1 to 120 of the characters A-Z a-z 0-9 . _ -`},
		"handler of no kind":       {small() + "handlers:\n  a: {}\n", `9: handlers.a needs one of http, exec and log`},
		"http without url":         {small() + "handlers:\n  a: {http: {}}\n", `9: handlers.a.http has no url`},
		"http with a bad url":      {small() + "handlers:\n  a: {http: {url: \"ftp://x\"}}\n", `9: handlers.a.http.url must be an http:// or https:// URL with a host`},
		"exec without command":     {small() + "handlers:\n  a: {exec: {command: []}}\n", `9: handlers.a.exec has no command`},
		"memory of a goroutine":    {small("memory_limit: 512MiB", "recycle: {memory: 1GiB}"), "7: processes.p.memory_limit needs isolation: os, since the memory of goroutines can't be told apart\n8: processes.p.recycle.memory needs isolation: os, since the memory of goroutines can't be told apart"},
		"memory for nothing":       {small("isolation: os", "memory_limit: 1MiB"), `8: processes.p.memory_limit must be a number of bytes, at least 33554432, plain or with KiB, MiB or GiB`},
		"unset variable":           {small("default_job_type: ${NOWHERE}"), `7: processes.p.default_job_type needs the environment variable NOWHERE, which is not set; set it or write ${NOWHERE:-default}`},
		"open variable":            {small("default_job_type: \"${NOWHERE\""), `7: processes.p.default_job_type has a ${ without its }; write $${ for a plain one`},
		"file that is not there":   {small("default_job_type: file:/nowhere/x"), `7: processes.p.default_job_type can't be read: open /nowhere/x: no such file or directory`},
		"admin open to the world":  {small() + "admin: {listen: \"0.0.0.0:9090\"}\n", `8: admin.listen is not a loopback address, so admin.token must be set; set it or listen on 127.0.0.1`},
		"admin without port":       {small() + "admin: {listen: localhost}\n", `8: admin.listen must be host:port, for example 127.0.0.1:9090`},
		"no processes":             {"transports:\n  r: {url: \"redis://h\"}\n", `1: there are no processes; name at least one under processes:`},
		"an empty file":            {"", `1: there are no processes; name at least one under processes:`},
		"typo in a required key":   {"transports:\n  r: {ulr: \"redis://h\"}\nprocesses:\n  p: {transport: r, queu: q}\n", "2: unknown key \"ulr\" in transports.r; did you mean \"url\"?\n4: unknown key \"queu\" in processes.p; did you mean \"queue\"?"},
		"typo in a handler's kind": {small() + "handlers:\n  a: {htp: {url: \"http://h\"}}\n", `9: unknown key "htp" in handlers.a; did you mean "http"?`},
		"handlers that tie":        {small() + "handlers:\n  \"a*b\": {log: {}}\n  \"a*c*\": {log: {}}\n", `10: handlers.a*c*: "a*b" and "a*c*" tie: some job types match both and neither has more text before its first *; make one of them longer there`},
		"policies that tie":        {small("retry_types: {\"a*b\": {}, \"a*c*\": {}}"), `7: retry_types.a*c*: "a*b" and "a*c*" tie: some job types match both and neither has more text before its first *; make one of them longer there`},
		"a transport with a typo":  {"transprots:\n  r: {url: \"redis://h\"}\nprocesses:\n  p: {transport: r, queue: q}\n", `1: unknown key "transprots"; did you mean "transports"?`},
		"two documents":            {small() + "---\nprocesses: {}\n", `9: a second YAML document begins here; the file must be a single one`},
		"alias without anchor":     {small("retry: *none"), "7: the alias *none has no anchor\n7: processes.p.retry must be a section of keys and values"},
		"broken YAML":              {"processes: [a\nb: hush-hush", `2: is not valid YAML: ',' or ']' must be specified`},
		"variable in a default":    {small("default_job_type: \"${A:-${B:-x}}\""), `7: processes.p.default_job_type has a ${ inside another one, which does not expand; give it a plain default`},
		"not UTF-8":                {small("default_job_type: \"\xff\""), `7: is not UTF-8; save the file as UTF-8`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.file, nil)
			if got := strings.Join(faultLines(t, err), "\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAMissingFileIsOneFaultThatSaysHowToNameIt(t *testing.T) {
	t.Parallel()
	_, err := config.Load("/nowhere/consumer.yaml", config.Options{})
	if got, want := err.Error(), "/nowhere/consumer.yaml: can't be read (no such file or directory); name the file with --config or $CONSUMER_CONFIG"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
