package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/processes/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixedHost reports what it was last given.
type fixedHost struct {
	status atomic.Pointer[[]processes.ProcessStatus]
}

func (h *fixedHost) set(status ...processes.ProcessStatus) { h.status.Store(&status) }

func (h *fixedHost) Status() []processes.ProcessStatus { return *h.status.Load() }

// serve runs a server until the test ends and returns its base URL.
func serve(t *testing.T, cfg admin.Config, host admin.Host) string {
	t.Helper()
	cfg.Listen, cfg.Logger = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	server, err := admin.Listen(cfg, host)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + server.Addr()
}

// get returns the code, the content type and the body of an answer.
func get(t *testing.T, address, token string) (int, string, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	var body map[string]any
	_ = json.Unmarshal(text, &body) // /metrics is no JSON
	return response.StatusCode, response.Header.Get("Content-Type"), body
}

func TestReadyNamesEveryProcessWithItsReason(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status []processes.ProcessStatus
		code   int
	}{
		"all run":     {[]processes.ProcessStatus{{Name: "a", State: processes.StateRunning, Ready: true}}, 200},
		"paused":      {[]processes.ProcessStatus{{Name: "a", State: processes.StatePaused, Ready: true}}, 200},
		"starting":    {[]processes.ProcessStatus{{Name: "a", State: processes.StateStarting, Reason: "not subscribed yet"}}, 503},
		"one is down": {[]processes.ProcessStatus{{Name: "a", State: processes.StateRunning, Ready: true}, {Name: "b", State: processes.StateRetrying, Reason: "refused"}}, 503},
		"nothing":     {nil, 503},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &fixedHost{}
			host.set(c.status...)
			code, _, body := get(t, serve(t, admin.Config{}, host)+"/readyz", "")
			if code != c.code || body["ready"] != (c.code == 200) {
				t.Errorf("got %d %v", code, body)
			}
			listed := body["processes"].([]any)
			if len(listed) != len(c.status) {
				t.Fatalf("got %v", body)
			}
			for i, s := range c.status {
				p := listed[i].(map[string]any)
				reason, _ := p["reason"].(string)
				if p["process"] != s.Name || p["state"] != string(s.State) || p["ready"] != s.Ready ||
					reason != s.Reason || p["paused"] != (s.State == processes.StatePaused) {
					t.Errorf("got %v for %+v", p, s)
				}
			}
		})
	}
}

func TestLiveFailsOnlyWhereARestartHelps(t *testing.T) {
	t.Parallel()
	host := &fixedHost{}
	address := serve(t, admin.Config{}, host)
	host.set(processes.ProcessStatus{Name: "a", State: processes.StateRetrying})
	if code, _, _ := get(t, address+"/livez", ""); code != 200 {
		t.Errorf("a broker that is down made it %d", code)
	}
	host.set(processes.ProcessStatus{Name: "a", State: processes.StateFailed, NeedsRestart: true, Reason: "too many"})
	if code, _, body := get(t, address+"/livez", ""); code != 503 || body["detail"] != "process a: too many" {
		t.Errorf("got %d %v", code, body)
	}
}

func TestTheTokenGuardsEverythingButHealthAndMetrics(t *testing.T) {
	t.Parallel()
	host := &fixedHost{}
	host.set(processes.ProcessStatus{Name: "a", State: processes.StateRunning, Ready: true})
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "consumer_process_up 1\n") })
	address := serve(t, admin.Config{Token: "s3cret", Metrics: metrics}, host)
	for path, codes := range map[string][3]int{ // without, with a wrong and with the right token
		"/livez":        {200, 200, 200},
		"/readyz":       {200, 200, 200},
		"/metrics":      {200, 200, 200},
		"/":             {401, 401, 404},
		"/api/v1/stats": {401, 401, 404},
		"/metrics/x":    {401, 401, 404},
	} {
		for i, token := range []string{"", "s3cre", "s3cret"} {
			code, kind, body := get(t, address+path, token)
			if code != codes[i] {
				t.Errorf("%s with %q: %d, want %d", path, token, code, codes[i])
			}
			if code >= 400 && (kind != "application/problem+json" || body["status"] != float64(code) || body["detail"] == "") {
				t.Errorf("%s with %q: %s %v", path, token, kind, body)
			}
		}
	}
}

func TestListenRefusesWhatIsUnsafeOrTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		"0.0.0.0:0":             "has no token",
		":0":                    "has no token",
		"[::]:0":                "has no token",
		"example.test:0":        "has no token",
		taken.Addr().String():   "address already in use",
		"127.0.0.1:not-a-port!": "can't be used",
	} {
		server, err := admin.Listen(admin.Config{Listen: address}, &fixedHost{})
		if err == nil {
			_ = server
			t.Errorf("%s was taken", address)
			continue
		}
		if _, ok := errors.AsType[*core.SetupError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestB44_APanicInAHealthCallbackIsOneBadAnswer(t *testing.T) {
	t.Parallel()
	host := &fixedHost{} // its Status dereferences nil
	address := serve(t, admin.Config{}, host)
	if code, _, _ := get(t, address+"/readyz", ""); code != 500 {
		t.Errorf("got %d", code)
	}
	host.set(processes.ProcessStatus{Name: "a", Ready: true})
	if code, _, _ := get(t, address+"/readyz", ""); code != 200 {
		t.Errorf("afterwards %d", code)
	}
}
