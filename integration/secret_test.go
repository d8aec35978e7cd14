package integration

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	passwordCanary = "canary/pass word+1"
	payloadCanary  = "canary-in-the-payload"
)

// wantNoCanary fails the test when text holds the canary in any of its disguises.
func wantNoCanary(t *testing.T, where, text, canary string) {
	t.Helper()
	for name, disguise := range map[string]string{
		"plain": canary, "query-escaped": url.QueryEscape(canary), "path-escaped": url.PathEscape(canary),
		"user-escaped": strings.TrimPrefix(url.UserPassword("", canary).String(), ":"),
		"base64":       base64.StdEncoding.EncodeToString([]byte(canary)),
	} {
		if strings.Contains(text, disguise) {
			t.Errorf("%s holds the %s canary:\n%s", where, name, text)
		}
	}
}

func TestB52_PasswordsAndPayloadsStayOutOfAllOutput(t *testing.T) {
	t.Parallel()
	l := newAdmin(t)
	if err := l.client.ConfigSet(t.Context(), "requirepass", passwordCanary).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: l.server.Addr, Password: passwordCanary})
	t.Cleanup(func() { client.Close() })
	l.client = client
	good := "redis://" + url.UserPassword("default", passwordCanary).String() + "@" + l.server.Addr + "/0"
	configure := func(u string) {
		l.configure(strings.NewReplacer("REDIS", u, "REPLICAS", "1").Replace(adminConfig))
	}
	check := func(where string, p *program) {
		t.Helper()
		for _, canary := range []string{passwordCanary, payloadCanary} {
			wantNoCanary(t, where+": stdout", p.stdout.String(), canary)
			wantNoCanary(t, where+": stderr", p.stderr.String(), canary)
		}
	}

	configure(good)
	push(t, client, "play", "play.job", 2, func(i int) string {
		return []string{`{"do":["PANIC"],"secret":"` + payloadCanary + `"}`, `{"do":["FAIL"],"secret":"` + payloadCanary + `"}`}[i]
	})
	p := l.start(binaries.worker, nil, "run", "--process=play", "--log-level=debug")
	addr := p.adminAddr()
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)
	eventually(t, 20*time.Second, "both jobs are dead letters", func() bool { return len(holds(t, client, "play").dead) == 2 })
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/"} {
		_, body := get(addr, path)
		wantNoCanary(t, path, body, passwordCanary)
		wantNoCanary(t, path, body, payloadCanary)
	}
	p.stop(10 * time.Second)
	check("a normal run", p)
	for i := range int64(2) {
		var record struct{ Error, Reason, Queue, Process, Transport string }
		l.deadLetter("play", i, &record)
		text := strings.Join([]string{record.Error, record.Reason, record.Queue, record.Process, record.Transport}, " ")
		wantNoCanary(t, "a dead letter's metadata", text, payloadCanary)
		wantNoCanary(t, "a dead letter's metadata", text, passwordCanary)
	}

	host, _, _ := strings.Cut(l.server.Addr, ":")
	secret := url.UserPassword("default", passwordCanary).String()
	for name, u := range map[string]string{
		"refused":       "redis://" + secret + "@127.0.0.1:1/0",
		"wrong":         "redis://" + url.UserPassword("default", "x"+passwordCanary).String() + "@" + l.server.Addr + "/0",
		"unparsable":    "redis://default:" + passwordCanary + "@" + host + ":port%zz/0",
		"several hosts": "redis+cluster://" + secret + "@" + l.server.Addr + "," + l.server.Addr + "/",
	} {
		configure(u)
		for _, args := range [][]string{
			{"run", "--process=play", "--give-up-after=1s", "--log-level=debug"},
			{"stats", "--log-level=debug"},
			{"config", "check"},
			{"config", "show"},
			{"list"},
			{"publish", "--process=play", "--type=play.job", `--payload={"secret":"` + payloadCanary + `"}`},
			{"dlq", "ls", "--process=play"},
		} {
			p := l.start(binaries.worker, nil, args...)
			p.wait(30 * time.Second)
			check(name+": "+strings.Join(args[:min(2, len(args))], " "), p)
			if text := p.stdout.String() + p.stderr.String(); name == "refused" && args[0] == "stats" && !strings.Contains(text, "127.0.0.1:1") {
				t.Errorf("host and port are not readable any more: %s", text)
			}
		}
	}
}
