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
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/processes/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixedHost reports what it was last given.
type fixedHost struct {
	admin.Host // nil: it only reports
	status     atomic.Pointer[[]processes.ProcessStatus]
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

func TestB53_ReadyzFollowsTheSubscription(t *testing.T) {
	t.Parallel()
	broker := drivertest.NewMemory(drivertest.Republishing())
	opened := make(chan struct{})
	broker.Inject(drivertest.Fault{Op: drivertest.OpOpen, Hold: opened})
	manager, err := processes.New([]processes.Spec{{Name: "p", Transport: "m", Queue: "orders"}}, processes.Options{
		Endpoints: []processes.Endpoint{{Name: "m", URL: "memory://"}},
		Drivers:   map[string]processes.DriverFunc{"memory": func(processes.Endpoint) (core.Driver, error) { return broker.Open(), nil }},
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, admin.Config{}, manager)
	becomes := func(what string, code int) map[string]any {
		t.Helper()
		deadline := time.After(5 * time.Second)
		for {
			got, _, body := get(t, address+"/readyz", "")
			if got == code {
				return body["processes"].([]any)[0].(map[string]any)
			}
			select {
			case <-deadline:
				t.Fatalf("%s: still %d %v", what, got, body)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	becomes("before the start", 503)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx) }()
	becomes("before the subscription", 503)
	close(opened)
	becomes("subscribed", 200)
	if err := manager.Pause(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if p := becomes("paused", 200); p["paused"] != true || p["state"] != "paused" {
		t.Errorf("paused: %v", p)
	}
	if err := manager.Resume(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	broker.Down()
	if reason := becomes("the broker is down", 503)["reason"].(string); !strings.Contains(reason, "orders") {
		t.Errorf("the reason does not name the queue: %s", reason)
	}
	if code, _, _ := get(t, address+"/livez", ""); code != 200 {
		t.Errorf("livez is %d while the broker is down", code)
	}
	broker.Up()
	becomes("the broker is back", 200)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	becomes("stopped", 503)
}

// steeredHost notes what it is told.
type steeredHost struct {
	fixedHost
	done chan string
	err  error
}

func (h *steeredHost) note(verb, name string) error {
	h.done <- verb + " " + name
	return h.err
}

func (h *steeredHost) Start(name string) error                     { return h.note("start", name) }
func (h *steeredHost) Stop(name string) error                      { return h.note("stop", name) }
func (h *steeredHost) Restart(name string) error                   { return h.note("restart", name) }
func (h *steeredHost) Pause(_ context.Context, name string) error  { return h.note("pause", name) }
func (h *steeredHost) Resume(_ context.Context, name string) error { return h.note("resume", name) }

// send makes a request with headers and returns the code and the answer's detail.
func send(t *testing.T, method, address string, headers map[string]string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	request.Host = request.Header.Get("Host")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body struct{ Detail, Process string }
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatalf("answer of %s: %v", address, err)
	}
	return response.StatusCode, body.Detail + body.Process
}

func TestProcessesAreSteeredByName(t *testing.T) {
	t.Parallel()
	host := &steeredHost{done: make(chan string, 1)}
	host.set(processes.ProcessStatus{Name: "orders.eu", State: processes.StateRunning, Ready: true})
	address := serve(t, admin.Config{}, host) + "/api/v1/processes/orders.eu"
	for _, verb := range []string{"start", "stop", "restart", "pause", "resume"} {
		if code, process := send(t, "POST", address+"/"+verb, nil); code != 200 || process != "orders.eu" || <-host.done != verb+" orders.eu" {
			t.Errorf("%s: %d %s", verb, code, process)
		}
	}
	for what, c := range map[string]struct {
		method, path string
		code         int
	}{
		"one process":     {"GET", "/api/v1/processes/orders.eu", 200},
		"an unknown one":  {"GET", "/api/v1/processes/nobody", 404},
		"an unknown verb": {"POST", "/api/v1/processes/orders.eu/explode", 404},
		"a verb by GET":   {"GET", "/api/v1/processes/orders.eu/stop", 404},
	} {
		if code, _ := send(t, c.method, strings.TrimSuffix(address, "/api/v1/processes/orders.eu")+c.path, nil); code != c.code {
			t.Errorf("%s: %d, want %d", what, code, c.code)
		}
	}
}

func TestWhatKeepsAVerbFromBeingDoneHasItsCode(t *testing.T) {
	t.Parallel()
	for code, err := range map[int]error{
		404: &processes.UnknownProcessError{Name: "p"},
		409: processes.ErrStopping,
		422: &core.SetupError{Sentence: "there is no transport named x"},
		502: errors.New("pause q: redis://:hush-hush@h cannot be reached"),
	} {
		host := &steeredHost{done: make(chan string, 1), err: err}
		got, detail := send(t, "POST", serve(t, admin.Config{}, host)+"/api/v1/processes/p/pause", nil)
		if got != code || detail == "" || strings.Contains(detail, "hush-hush") {
			t.Errorf("%v: %d %q, want %d", err, got, detail, code)
		}
	}
}

func TestPagesOfOthersCannotSteerAHost(t *testing.T) {
	t.Parallel()
	open, closed := &steeredHost{done: make(chan string, 9)}, &steeredHost{done: make(chan string, 9)}
	status := processes.ProcessStatus{Name: "p", State: processes.StateRunning}
	open.set(status)
	closed.set(status)
	const path = "/api/v1/processes/p/stop"
	plain, guarded := serve(t, admin.Config{}, open)+path, serve(t, admin.Config{Token: "s3cret"}, closed)+path
	for what, c := range map[string]struct {
		address string
		headers map[string]string
		code    int
	}{
		"another site":                       {plain, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"another origin":                     {plain, map[string]string{"Origin": "http://evil.test"}, 403},
		"a name that was made to point here": {plain, map[string]string{"Host": "evil.test:9090", "Origin": "http://evil.test:9090"}, 403},
		"its own page":                       {plain, map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		"localhost by name":                  {plain, map[string]string{"Host": "localhost"}, 200},
		"another origin with the token":      {guarded, map[string]string{"Origin": "http://evil.test", "Authorization": "Bearer s3cret"}, 403},
		"no token":                           {guarded, nil, 401},
		"any name with the token":            {guarded, map[string]string{"Host": "jobs.test", "Authorization": "Bearer s3cret"}, 200},
	} {
		if code, detail := send(t, "POST", c.address, c.headers); code != c.code {
			t.Errorf("%s: %d %s, want %d", what, code, detail, c.code)
		}
	}
	if open, closed := len(open.done), len(closed.done); open != 2 || closed != 1 {
		t.Errorf("%d and %d stops were carried out, want 2 and 1", open, closed)
	}
}
