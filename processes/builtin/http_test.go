package builtin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes/builtin"
)

// serve makes an HTTP handler that posts to endpoint.
func serve(t *testing.T, cfg builtin.HTTPConfig, endpoint http.HandlerFunc) core.Handler {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	cfg.URL = server.URL + "/jobs?secret=hush-hush"
	return builtin.HTTP(cfg)
}

func TestHTTPAnswersDecide(t *testing.T) {
	t.Parallel()
	long := `{"status":"FAIL","error":"` + strings.Repeat("x", 1<<20) + `"}`
	cases := map[string]struct {
		code   int
		header string // Retry-After
		body   string
		want   answer
	}{
		"200":                        {200, "", "", answer{core.StatusSuccess, policy, ""}},
		"204":                        {204, "", "", answer{core.StatusSuccess, policy, ""}},
		"299":                        {299, "", "", answer{core.StatusSuccess, policy, ""}},
		"200 with other JSON":        {200, "", `{"status":"ok"}`, answer{core.StatusSuccess, policy, ""}},
		"301 is not followed":        {301, "", "", answer{core.StatusRetry, policy, "HTTP 301"}},
		"400":                        {400, "", "", answer{core.StatusFail, policy, "HTTP 400"}},
		"401":                        {401, "", "", answer{core.StatusRetry, policy, "HTTP 401"}},
		"403":                        {403, "", "", answer{core.StatusRetry, policy, "HTTP 403"}},
		"404":                        {404, "", "", answer{core.StatusRetry, policy, "HTTP 404"}},
		"405":                        {405, "", "", answer{core.StatusFail, policy, "HTTP 405"}},
		"408":                        {408, "", "", answer{core.StatusRetry, policy, "HTTP 408"}},
		"409":                        {409, "", "", answer{core.StatusRetry, policy, "HTTP 409"}},
		"410":                        {410, "", "", answer{core.StatusDiscard, policy, "HTTP 410"}},
		"413":                        {413, "", "", answer{core.StatusFail, policy, "HTTP 413"}},
		"415":                        {415, "", "", answer{core.StatusFail, policy, "HTTP 415"}},
		"422 with a message":         {422, "", `{"error":"no such order"}`, answer{core.StatusFail, policy, "HTTP 422: no such order"}},
		"429 alone":                  {429, "", "", answer{core.StatusRetry, policy, "HTTP 429"}},
		"429 with seconds":           {429, "7", "", answer{core.StatusDefer, 7 * time.Second, "HTTP 429"}},
		"429 with nonsense":          {429, "soon", "", answer{core.StatusRetry, policy, "HTTP 429"}},
		"429 with a negative number": {429, "-3", "", answer{core.StatusRetry, policy, "HTTP 429"}},
		"503 with a date gone by":    {503, "Mon, 02 Jan 2006 15:04:05 GMT", "", answer{core.StatusDefer, 0, "HTTP 503"}},
		"500":                        {500, "", "", answer{core.StatusRetry, policy, "HTTP 500"}},
		"500 with Retry-After":       {500, "7", "", answer{core.StatusRetry, policy, "HTTP 500"}},
		"501":                        {501, "", "", answer{core.StatusFail, policy, "HTTP 501"}},
		"503 alone":                  {503, "", "", answer{core.StatusRetry, policy, "HTTP 503"}},
		"a word beats the code":      {500, "", `{"status":"success"}`, answer{core.StatusSuccess, policy, ""}},
		"a word beats Retry-After":   {503, "7", `{"status":"Fail","error":"e"}`, answer{core.StatusFail, policy, "e"}},
		"retry in words":             {200, "", `{"status":"RETRY","error":"later","retryAfterMs":1500}`, answer{core.StatusRetry, 1500 * time.Millisecond, "later"}},
		"retry without a delay":      {200, "", ` {"status":"retry"}` + "\n", answer{core.StatusRetry, policy, "answered RETRY (HTTP 200)"}},
		"defer in words":             {200, "", `{"status":"Defer","retryAfterMs":0}`, answer{core.StatusDefer, 0, "answered DEFER (HTTP 200)"}},
		"a delay as a string":        {200, "", `{"status":"RETRY","error":"e","retryAfterMs":"1500"}`, answer{core.StatusRetry, 1500 * time.Millisecond, "e"}},
		"a delay that is no number":  {200, "", `{"status":"RETRY","error":"e","retryAfterMs":"soon"}`, answer{core.StatusRetry, policy, "e"}},
		"a byte order mark":          {200, "", "\ufeff" + `{"status":"FAIL","error":"e"}`, answer{core.StatusFail, policy, "e"}},
		"a negative delay is none":   {200, "", `{"status":"RETRY","retryAfterMs":-5}`, answer{core.StatusRetry, 0, "answered RETRY (HTTP 200)"}},
		"discard in words":           {200, "", `{"status":"DISCARD"}`, answer{core.StatusDiscard, policy, "answered DISCARD (HTTP 200)"}},
		"a word of another type":     {200, "", `{"status":1,"error":[2]}`, answer{core.StatusSuccess, policy, ""}},
		"a list":                     {500, "", `[{"status":"SUCCESS"}]`, answer{core.StatusRetry, policy, "HTTP 500"}},
		"HTML":                       {502, "", `<h1>Bad gateway</h1>`, answer{core.StatusRetry, policy, "HTTP 502"}},
		"a body without end":         {200, "", long, answer{core.StatusSuccess, policy, ""}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := serve(t, builtin.HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			check(t, handler(t.Context(), decode(t, envelope)), c.want)
		})
	}
}

func TestHTTPRetryAfterADateWaitsUntilThen(t *testing.T) {
	t.Parallel()
	handler := serve(t, builtin.HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r := core.ResultOf(handler(t.Context(), decode(t, envelope)))
	if r.Status != core.StatusDefer || r.Delay < 50*time.Second || r.Delay > time.Minute {
		t.Errorf("got %v after %v", r.Status, r.Delay)
	}
}

func TestHTTPPostsTheEnvelopeAsItIs(t *testing.T) {
	t.Parallel()
	var header http.Header
	var method, body string
	handler := serve(t, builtin.HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		read, _ := io.ReadAll(r.Body)
		method, header, body = r.Method, r.Header, string(read)
	})
	if err := handler(t.Context(), decode(t, envelope)); err != nil {
		t.Fatalf("post: %v", err)
	}
	if method != http.MethodPost || body != envelope {
		t.Errorf("%s %s", method, body)
	}
	for name, want := range map[string]string{
		"X-Job-Id": "job_1", "X-Job-Type": "order.paid", "X-Job-Attempt": "3",
		"Traceparent": "00-ab-cd-01", "Content-Type": "application/json",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestHTTPTakesIdsThatNoHeaderCanHold(t *testing.T) {
	t.Parallel()
	var id string
	handler := serve(t, builtin.HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) { id = r.Header.Get("X-Job-Id") })
	job := decode(t, strings.Replace(envelope, "job_1", `a\r\nX-Evil: 1`, 1))
	if err := handler(t.Context(), job); err != nil || id != "a??X-Evil: 1" {
		t.Errorf("got %q, %v", id, err)
	}
}

func TestHTTPWithoutAnAnswerRetriesAndNamesNoSecret(t *testing.T) {
	t.Parallel()
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(core.ErrClosed)

	refused := builtin.HTTP(builtin.HTTPConfig{URL: "http://user:hush-hush@" + closed.Addr().String() + "/?secret=hush-hush"})
	cases := map[string]struct {
		ctx     context.Context
		handler core.Handler
		want    string
	}{
		"connection refused": {t.Context(), refused, "no answer: dial tcp " + closed.Addr().String() + ": connect: connection refused"},
		"its own timeout":    {t.Context(), serve(t, builtin.HTTPConfig{Timeout: 50 * time.Millisecond}, hang), "no answer within 50ms"},
		"the job's context":  {cancelled, serve(t, builtin.HTTPConfig{}, hang), "closed"},
		"a broken answer": {t.Context(), serve(t, builtin.HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"status":`)
		}), "no answer: the answer broke off: unexpected EOF"},
		"a cut connection": {t.Context(), serve(t, builtin.HTTPConfig{}, func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}), "no answer: EOF"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, c.handler(c.ctx, decode(t, envelope)), answer{core.StatusRetry, policy, c.want})
		})
	}
}

func TestHTTPKeepsAsManyConnectionsAsJobsRun(t *testing.T) {
	t.Parallel()
	const jobs = 80
	var opened atomic.Int32
	var together sync.WaitGroup
	together.Add(jobs)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Job-Attempt") == "1" {
			together.Done()
			together.Wait()
		}
		fmt.Fprint(w, strings.Repeat("x", 10_000))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	handler := builtin.HTTP(builtin.HTTPConfig{URL: server.URL, Connections: jobs})
	for attempt := 1; attempt <= 5; attempt++ {
		var all sync.WaitGroup
		for range jobs {
			all.Go(func() {
				job := decode(t, envelope)
				job.Attempt = attempt
				if err := handler(t.Context(), job); err != nil {
					t.Errorf("post: %v", err)
				}
			})
		}
		all.Wait()
	}
	// A request may open a connection while another one is just becoming idle.
	if n := opened.Load(); n > jobs+jobs/2 {
		t.Errorf("%d connections for %d jobs at once", n, jobs)
	}
}
