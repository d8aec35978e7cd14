package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const adminConfig = playConfig + `
admin: {listen: "127.0.0.1:0"}
`

func newAdmin(t *testing.T) *lab {
	t.Helper()
	// A wait that the server is holding ends within block, whatever becomes of the
	// list.
	return newLab(t, strings.NewReplacer("REPLICAS", "1", "sweep: 500ms", "sweep: 500ms, block: 1s").Replace(adminConfig))
}

// adminAddr is where the program's admin address is, from its log.
func (p *program) adminAddr() string {
	p.t.Helper()
	var addr string
	eventually(p.t, 10*time.Second, "the admin address is in the log", func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			var entry struct{ Msg, Addr string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "admin.listening" {
				addr = entry.Addr
			}
		}
		return addr != ""
	})
	return addr
}

// get returns the status and body of an admin page, 0 when nobody answers.
func get(addr, path string) (int, string) {
	client := http.Client{Timeout: 3 * time.Second}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func awaitReadiness(t *testing.T, addr string, want int, limit time.Duration) (body string) {
	t.Helper()
	eventually(t, limit, "readiness is "+http.StatusText(want), func() bool {
		var code int
		code, body = get(addr, "/readyz")
		return code == want
	})
	return body
}

func TestB53_ABrokerThatIsGoneForGoodEndsTheWorkerWith69(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	p := l.start(binaries.worker, nil, "run", "--process=play", "--give-up-after=3s")
	push(t, l.client, "play", "play.job", 1, func(int) string { return "{}" })
	eventually(t, 10*time.Second, "the worker is at work", func() bool { return len(l.readLedger()) == 1 })
	l.server.Kill()
	if code := p.wait(8 * time.Second); code != 69 {
		t.Errorf("exit code %d, want 69:\n%s", code, p.stderr.tail())
	}
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "play") || !strings.Contains(last, "3s") {
		t.Errorf("the last line does not say which process gave up and why: %s", last)
	}
}

func TestB53_ABrokerThatComesBackIsWaitedFor(t *testing.T) {
	t.Parallel()
	l := newAdmin(t)
	p := l.start(binaries.worker, nil, "run", "--process=play")
	addr := p.adminAddr()
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)

	l.server.Stop()
	awaitReadiness(t, addr, http.StatusServiceUnavailable, 5*time.Second)
	if code, body := get(addr, "/livez"); code != http.StatusOK {
		t.Errorf("/livez is %d while the broker is away: %s", code, body)
	}
	<-time.After(2 * time.Second)
	l.server.Restart()
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)
	push(t, l.client, "play", "play.job", 1, func(int) string { return "{}" })
	eventually(t, 10*time.Second, "the worker works again", func() bool { return len(l.readLedger()) == 1 })
	p.stop(10 * time.Second)
}

func TestB53_ADeadSubscriptionIsNotReadyAndNamed(t *testing.T) {
	t.Parallel()
	l := newAdmin(t)
	p := l.start(binaries.worker, nil, "run", "--process=play")
	addr := p.adminAddr()
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)

	// The ready list becomes something that cannot be fetched from; the connection
	// stays up.
	if err := l.client.Set(t.Context(), "dq:ready:{play}", "not a list", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if body := awaitReadiness(t, addr, http.StatusServiceUnavailable, 5*time.Second); !strings.Contains(body, "play") {
		t.Errorf("/readyz does not name the queue: %s", body)
	}
	l.client.Del(t.Context(), "dq:ready:{play}")
	awaitReadiness(t, addr, http.StatusOK, 10*time.Second)
	p.stop(10 * time.Second)
}
