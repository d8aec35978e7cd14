package config_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const canary = "hush-hush"

func TestB52_NoFaultAndNoShownValueHoldsASecret(t *testing.T) {
	t.Parallel()
	process := "processes:\n  p: {transport: r, queue: q}\n"
	faulty := map[string]string{
		"an unparseable URL":       "transports:\n  r: {url: \"redis://:hush-hush%zz@h:6379/0\"}\n" + process,
		"a URL with a space":       "transports:\n  r: {url: \"redis://:hush-hush @h:6379/0\"}\n" + process,
		"a wrong parameter":        "transports:\n  r: {url: \"redis://h/0?db=hush-hush\"}\n" + process,
		"an unknown scheme":        "transports:\n  r: {url: \"reddis://:hush-hush@h:6379/0\"}\n" + process,
		"a password as the scheme": "transports:\n  r: {url: \"hush-hush@!://h\"}\n" + process,
		"no scheme":                "transports:\n  r: {url: \":hush-hush@h:6379\"}\n" + process,
		"a wrong database":         "transports:\n  r: {url: \"redis://:hush-hush@h:6379/x\"}\n" + process,
		"an expanded password":     "transports:\n  r: {url: \"redis://:${PW}@\"}\n" + process,
		"broken YAML":              "transports:\n  r: {url: \"redis://:hush-hush@h\"\n" + process,
		"broken YAML elsewhere":    "transports:\n  r: {url: \"redis://:hush-hush@h\"}\nprocesses: [\nadmin: {token: hush-hush\n",
		"a bad handler URL":        "transports:\n  r: {url: \"redis://h\"}\n" + process + "handlers:\n  a: {http: {url: \"ftp://u:hush-hush@h\"}}\n",
		"an open admin address":    "transports:\n  r: {url: \"redis://:hush-hush@h\"}\n" + process + "admin: {listen: \"0.0.0.0:1\"}\n",
		"a token that is a list":   "transports:\n  r: {url: \"redis://h\"}\n" + process + "admin: {token: [hush-hush]}\n",
		"a number that is none":    "transports:\n  r: {url: \"redis://h\"}\nprocesses:\n  p: {transport: r, queue: q, concurrency: \"${PW}\"}\n",
	}
	for name, file := range faulty {
		_, err := load(t, file, environment{"PW": canary})
		if err == nil {
			t.Errorf("%s: no fault", name)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}

	c := mustLoad(t, `
transports:
  r: {url: "redis://:hush-hush@host-1:6379/0"}
  a: {url: "amqp://u:hush-hush@host-2:5672,host-3:5672/", management: "http://u:hush-hush@host-4:15672"}
  k: {url: "kafka://u:${PW}@host-5:9092?sasl=plain"}
processes:
  p: {transport: r, queue: q}
  a: {transport: a, queue: q}
handlers:
  h: {http: {url: "http://u:hush-hush@host-6/x?token=hush-hush"}}
  e: {exec: {command: [curl, "-H", "X-Key: ${PW}"]}}
admin: {token: hush-hush}
`, environment{"PW": canary})
	shown := ""
	for _, v := range c.Values() {
		shown += fmt.Sprintln(v.Key, v.Text, v.Source)
	}
	faults, warnings := c.Select([]string{"a"})
	for _, f := range slices.Concat(faults, warnings) {
		shown += f.Error() + "\n"
	}
	if strings.Contains(shown, canary) {
		t.Errorf("a secret in\n%s", shown)
	}
	for _, host := range []string{"host-1:6379", "host-2:5672,host-3:5672", "host-4:15672", "host-5:9092", "host-6"} {
		if !strings.Contains(shown, host) {
			t.Errorf("%s is not readable in\n%s", host, shown)
		}
	}
}

func TestEveryValueIsShownWithItsSource(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, whole, environment{"PW": "x", "JOB_MAX_ATTEMPTS": "3"})
	got := map[string]string{}
	for _, v := range c.Values() {
		if _, twice := got[v.Key]; twice {
			t.Errorf("%s is shown twice", v.Key)
		}
		got[v.Key] = v.Text + " | " + strings.ReplaceAll(v.Source, filepath.Dir(c.Path)+"/", "")
	}
	for key, want := range map[string]string{
		"transports.redis.url":                                 "redis://:***@127.0.0.1:6379/0 | consumer.yaml:3",
		"processes.job-redis.concurrency":                      "32 | consumer.yaml:20",
		"processes.job-redis.types":                            "[order.*, mail.*] | consumer.yaml:17",
		"processes.job-redis.shutdown_timeout":                 "1m30s | consumer.yaml:22",
		"processes.job-redis.retry.max_attempts":               "3 | JOB_MAX_ATTEMPTS",
		"processes.job-redis.retry.max_delay":                  "5m | built-in",
		"processes.job-redis.retry.jitter":                     "0 | consumer.yaml:29",
		"processes.job-redis.redis.prefix":                     "jobs | defaults (consumer.yaml:11)",
		"processes.job-redis.retry_types.order.*.max_attempts": "2 | consumer.yaml:31",
		"processes.other.retry_types.slow.*.base_delay":        "1m | defaults (consumer.yaml:10)",
		"processes.other.max_size":                             "16777216 | built-in",
		"handlers.order.paid.http.timeout":                     "10s | consumer.yaml:41",
		"handlers.order.export.exec.command":                   "[./export.sh, $${HOME}] | consumer.yaml:42",
		"handlers.demo.*.log":                                  "{} | consumer.yaml:43",
		"admin.listen":                                         "127.0.0.1:0 | consumer.yaml:45",
		"admin.token":                                          " | consumer.yaml:45",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
}
