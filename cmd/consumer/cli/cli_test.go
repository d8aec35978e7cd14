package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/cmd/consumer/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what one command line gave.
type result struct {
	code           int
	stdout, stderr string
}

// execute runs a command line with a config of its own ("" = none) and no other
// environment.
func execute(t *testing.T, config string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := []string{"CONSUMER_CONFIG=" + filepath.Join(t.TempDir(), "missing.yaml")}
	if config != "" {
		env[0] = "CONSUMER_CONFIG=" + writeConfig(t, config)
	}
	code := cli.Execute(t.Context(), cli.Options{}, cli.Process{
		Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Env: env, Signals: make(chan os.Signal),
	})
	return result{code, stdout.String(), stderr.String()}
}

func writeConfig(t *testing.T, config string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "consumer.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const twoProcesses = `
transports:
  redis: {url: "redis://user:secret@127.0.0.1:1/0"}
processes:
  orders: {transport: redis, queue: orders}
  mails: {transport: redis, queue: mails, enabled: false}
handlers:
  "demo.*": {log: {}}
`

const embeddedProcess = `
transports:
  dev: {url: "embedded://redis"}
processes:
  play: {transport: dev, queue: play}
`

func TestCommandLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		args   []string
		code   int
		stderr []string // parts of its one line
		stdout []string
	}{
		"version":                          {args: []string{"version"}, stdout: []string{"consumer ", "go1."}},
		"completion":                       {args: []string{"completion", "bash"}, stdout: []string{"bash completion"}},
		"completion for another shell":     {args: []string{"completion", "tcsh"}, code: 2, stderr: []string{`"tcsh"`, "bash, fish"}},
		"unknown verb":                     {args: []string{"versoin"}, code: 2, stderr: []string{`unknown verb "versoin"`, "version"}},
		"unknown flag":                     {args: []string{"stats", "--nope"}, code: 2, stderr: []string{"--nope", "consumer stats --help"}},
		"unknown group verb":               {args: []string{"config", "chek"}, code: 2, stderr: []string{`"chek"`, "check, show"}},
		"group without a verb":             {args: []string{"dlq"}, code: 2, stderr: []string{"ls", "show", "replay"}},
		"stray word":                       {args: []string{"stats", "now"}, code: 2, stderr: []string{`"now"`}},
		"bad output":                       {args: []string{"stats", "-o", "xml"}, code: 2, stderr: []string{"neither table nor json"}},
		"bad log level":                    {args: []string{"version", "--log-level=loud"}, code: 2, stderr: []string{"loud", "debug, info, warn, error"}},
		"bad log format":                   {args: []string{"version", "--log-format=xml"}, code: 2, stderr: []string{"auto, json, text"}},
		"missing config":                   {args: []string{"run", "--all"}, code: 78, stderr: []string{"missing.yaml"}},
		"run without a name":               {config: twoProcesses, args: []string{"run"}, code: 2, stderr: []string{"orders, mails"}},
		"run of an unknown process":        {config: twoProcesses, args: []string{"run", "--process=orders,nobody"}, code: 2, stderr: []string{`"nobody"`, "orders, mails"}},
		"run of all and one":               {config: twoProcesses, args: []string{"run", "--all", "--process=orders"}, code: 2, stderr: []string{"--all", "--process"}},
		"run with a negative give-up":      {config: twoProcesses, args: []string{"run", "--all", "--give-up-after=-1s"}, code: 2, stderr: []string{"negative"}},
		"publish without a process":        {config: twoProcesses, args: []string{"publish", "--type=x"}, code: 2, stderr: []string{"--process", "orders, mails"}},
		"publish without a type":           {config: twoProcesses, args: []string{"publish", "--process=orders"}, code: 2, stderr: []string{"--type"}},
		"publish of a scalar":              {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--payload=42"}, code: 2, stderr: []string{"--payload"}},
		"publish of no JSON":               {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--payload={"}, code: 2, stderr: []string{"--payload"}},
		"publish of an empty payload":      {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--payload="}, code: 2, stderr: []string{"--payload"}},
		"publish of bad meta":              {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--meta=k"}, code: 2, stderr: []string{"k=v"}},
		"publish with a deadline in words": {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--meta=deadline=tomorrow"}, code: 2, stderr: []string{"deadline", "milliseconds"}},
		"publish with a broken backoff":    {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--meta=backoff={"}, code: 2, stderr: []string{"backoff", "fixed"}},
		"publish none":                     {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--count=0"}, code: 2, stderr: []string{"--count"}},
		"publish into the past":            {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--delay=-1s"}, code: 2, stderr: []string{"--delay"}},
		"publish with a useless priority":  {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x", "--priority=high"}, code: 2, stderr: []string{"priority: none"}},
		"publish of a file and a type":     {config: twoProcesses, args: []string{"publish", "--process=orders", "--file=-", "--type=x"}, code: 2, stderr: []string{"--file", "--type"}},
		"publish to a dead broker":         {config: twoProcesses, args: []string{"publish", "--process=orders", "--type=x"}, code: 69, stderr: []string{"none of 1 job", "127.0.0.1:1"}},
		"publish to nowhere":               {config: embeddedProcess, args: []string{"publish", "--process=play", "--type=x"}, code: 2, stderr: []string{"dev", "embedded.listening"}},
		"dlq of nowhere":                   {config: embeddedProcess, args: []string{"dlq", "ls", "--process=play"}, code: 2, stderr: []string{"dev", "embedded.listening"}},
		"stats of nowhere":                 {config: embeddedProcess, args: []string{"stats", "-o", "json"}, stdout: []string{`"ready": null`}},
		"stats of a dead broker":           {config: twoProcesses, args: []string{"stats"}, code: 69, stderr: []string{"127.0.0.1:1"}, stdout: []string{"orders", "-"}},
		"stats as JSON":                    {config: twoProcesses, args: []string{"stats", "-o", "json"}, code: 69, stderr: []string{"127.0.0.1:1"}, stdout: []string{`"ready": null`, `"in_flight": null`}},
		"stats watched too often":          {config: twoProcesses, args: []string{"stats", "--watch", "--interval=1ms"}, code: 2, stderr: []string{"--interval", "100ms"}},
		"stats with a useless interval":    {config: twoProcesses, args: []string{"stats", "--interval=5s"}, code: 2, stderr: []string{"--interval", "--watch"}},
		"list":                             {config: twoProcesses, args: []string{"list"}, stdout: []string{"orders", "mails", "demo.*", "redis://user:***@127.0.0.1:1/0"}},
		"list as JSON":                     {config: twoProcesses, args: []string{"list", "-o", "json"}, stdout: []string{`"process": "orders"`, `"enabled": false`, `"kind": "log"`}},
		"config check":                     {config: twoProcesses, args: []string{"config", "check"}, stdout: []string{"ok"}},
		"config check as JSON":             {config: twoProcesses, args: []string{"config", "check", "-o", "json"}, stdout: []string{"[]"}},
		"config show":                      {config: twoProcesses, args: []string{"config", "show"}, stdout: []string{"processes.orders.queue", "***"}},
		"dlq of a dead broker":             {config: twoProcesses, args: []string{"dlq", "ls", "--process=orders"}, code: 69, stderr: []string{"127.0.0.1:1"}},
		"dlq with a bad time":              {config: twoProcesses, args: []string{"dlq", "ls", "--process=orders", "--since=yesterday"}, code: 2, stderr: []string{"--since", "1h", "RFC 3339"}},
		"pause without a process":          {config: twoProcesses, args: []string{"pause"}, code: 2, stderr: []string{"--process", "orders, mails"}},
		"pause of an unknown process":      {config: twoProcesses, args: []string{"pause", "--process=nobody"}, code: 2, stderr: []string{`"nobody"`, "orders, mails"}},
		"pause at a dead broker":           {config: twoProcesses, args: []string{"pause", "--process=orders"}, code: 69, stderr: []string{"process orders", "127.0.0.1:1"}},
		"pause in an embedded broker":      {config: embeddedProcess, args: []string{"pause", "--process=play"}, code: 78, stderr: []string{"admin address"}},
		"stop without an admin address":    {config: twoProcesses, args: []string{"stop", "--process=orders"}, code: 78, stderr: []string{"admin address", "127.0.0.1:9090"}},
		"restart without a host":           {config: twoProcesses + `admin: {listen: "127.0.0.1:1"}`, args: []string{"restart", "--process=orders"}, code: 1, stderr: []string{"no host answers at 127.0.0.1:1", "consumer run"}},
		"start as JSON without a host":     {config: twoProcesses + `admin: {listen: "127.0.0.1:1"}`, args: []string{"start", "--process=orders", "-o", "json"}, code: 1, stderr: []string{"no host answers"}, stdout: []string{"[]"}},
		"a replica by hand":                {config: twoProcesses, args: []string{"replica", "--process=orders"}, code: 2, stderr: []string{"use run"}},
		"dlq purge of everything":          {config: twoProcesses, args: []string{"dlq", "purge", "--process=orders"}, code: 2, stderr: []string{"--yes"}},
		"dlq purge into the past":          {config: twoProcesses, args: []string{"dlq", "purge", "--process=orders", "--yes", "--rate=-1"}, code: 2, stderr: []string{"--rate"}},
		"dlq purge of a dead broker":       {config: twoProcesses, args: []string{"dlq", "purge", "--process=orders", "--yes"}, code: 69, stderr: []string{"127.0.0.1:1"}},
		"dlq export of a dead broker":      {config: twoProcesses, args: []string{"dlq", "export", "--process=orders"}, code: 69, stderr: []string{"127.0.0.1:1"}},
		"dlq export as a table":            {config: twoProcesses, args: []string{"dlq", "export", "--process=orders", "-o", "table"}, code: 2, stderr: []string{"ndjson", "json"}},
		"doctor":                           {args: []string{"doctor", "--any"}, code: 2, stderr: []string{"doctor", "not built"}},
		"jobs ls":                          {args: []string{"jobs", "ls"}, code: 2, stderr: []string{"jobs", "not built"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, c.config, c.args...)
			if got.code != c.code {
				t.Errorf("exit code %d, want %d", got.code, c.code)
			}
			for _, part := range c.stdout {
				if !strings.Contains(got.stdout, part) {
					t.Errorf("stdout lacks %q:\n%s", part, got.stdout)
				}
			}
			for _, part := range c.stderr {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("stderr lacks %q:\n%s", part, got.stderr)
				}
			}
			if lines := strings.Count(got.stderr, "\n"); c.code != 0 && lines != 1 {
				t.Errorf("the error is %d lines, want one sentence:\n%s", lines, got.stderr)
			}
			if strings.Contains(got.stdout+got.stderr, "secret") {
				t.Errorf("the password is in the output:\n%s%s", got.stdout, got.stderr)
			}
		})
	}
}

func TestConfigCheckPrintsOneLineAFault(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, `transports:
  redis: {url: "redis://127.0.0.1:6379/0"}
processes:
  orders:
    transport: rediss
    queue: orders
    concurency: 3
    handler_timeout: 30
`)
	got := execute(t, "", "config", "check", "--config", path)
	if got.code != cli.ExitConfig || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q; want %d and silence", got.code, got.stderr, cli.ExitConfig)
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3:\n%s", len(lines), got.stdout)
	}
	for i, want := range []struct{ place, near string }{{":5:", "redis"}, {":7:", "concurrency"}, {":8:", "30s"}} {
		if !strings.HasPrefix(lines[i], path+want.place) || !strings.Contains(lines[i], want.near) {
			t.Errorf("line %d is %q, want it at %s%s with %q", i+1, lines[i], path, want.place, want.near)
		}
	}
}

func TestConfigCheckTellsFaultsAsJSON(t *testing.T) {
	t.Parallel()
	got := execute(t, "transports: {}\nprocesses:\n  orders: {qeue: orders}\n", "config", "check", "-o", "json")
	var faults []struct {
		File string
		Line int
		Text string
	}
	if err := json.Unmarshal([]byte(got.stdout), &faults); err != nil || got.code != cli.ExitConfig || got.stderr != "" {
		t.Fatalf("exit code %d, %v, stderr %q:\n%s", got.code, err, got.stderr, got.stdout)
	}
	if len(faults) == 0 || faults[0].Line != 3 || !strings.HasSuffix(faults[0].File, "consumer.yaml") || !strings.Contains(got.stdout, "queue") {
		t.Errorf("faults %+v", faults)
	}
}

func TestDemoAddsUpWithoutAnyEnvironment(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := cli.Execute(t.Context(), cli.Options{}, cli.Process{
		Args: []string{"demo"}, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Signals: make(chan os.Signal),
	})
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if last := lines[len(lines)-1]; code != 0 || last != "demo: published=52 success=38 discarded=6 dead=8" {
		t.Errorf("exit code %d, last line %q\n%s", code, last, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr is not a terminal and not empty: %s", stderr.String())
	}
}

func TestASignalStopsAnEmbeddedRun(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	var stderr lockedBuffer
	done := make(chan int, 1)
	go func() {
		done <- cli.Execute(context.Background(), cli.Options{}, cli.Process{
			Args: []string{"run", "--all", "--embedded", "--config", writeConfig(t, twoProcesses)}, Stdin: strings.NewReader(""),
			Stdout: &bytes.Buffer{}, Stderr: &stderr, Signals: signals,
		})
	}()
	eventually(t, func() bool { return strings.Contains(stderr.String(), "host.start") })
	signals <- syscall.SIGTERM
	select {
	case code := <-done:
		if code != 0 {
			t.Errorf("exit code %d:\n%s", code, stderr.String())
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the run did not end:\n%s", stderr.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestResultsThatCannotBePrintedAreAFailure(t *testing.T) {
	t.Parallel()
	for _, verb := range [][]string{{"list"}, {"list", "-o", "json"}, {"config", "show"}, {"config", "check"}, {"version"}, {"--help"}} {
		var stderr bytes.Buffer
		code := cli.Execute(t.Context(), cli.Options{}, cli.Process{
			Args: verb, Stdin: strings.NewReader(""), Stdout: fullDisk{}, Stderr: &stderr,
			Env: []string{"CONSUMER_CONFIG=" + writeConfig(t, twoProcesses)}, Signals: make(chan os.Signal),
		})
		if code != cli.ExitFailed || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: exit code %d, %q", verb, code, stderr.String())
		}
	}
}
