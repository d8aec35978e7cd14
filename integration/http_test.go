package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// httpConfig is a process with an http handler; HANDLER becomes its URL.
const httpConfig = `
transports:
  redis: {url: "REDIS"}
processes:
  job-redis:
    transport: redis
    queue: orders
    concurrency: 64
    shutdown_timeout: 10s
    retry: {type: fixed, max_attempts: 5, base_delay: 50ms, jitter: 0}
handlers:
  order.paid: {http: {url: "HANDLER", timeout: 5s}}
`

// order is the payload of the jobs; the handler answers by its number.
type order struct {
	Number int `json:"number"`
}

// answerOrders answers every 20th job with RETRY at its first attempt and every
// 100th (number 7 of each hundred) with FAIL, and notes each run.
func answerOrders(book *ledger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var job struct {
			JobID   string `json:"jobId"`
			Attempt int    `json:"attempt"`
			Payload order  `json:"payload"`
		}
		if err == nil {
			err = json.Unmarshal(body, &job)
		}
		if err != nil || job.JobID != r.Header.Get("X-Job-Id") || strconv.Itoa(job.Attempt) != r.Header.Get("X-Job-Attempt") {
			http.Error(w, "the envelope and the headers do not fit", http.StatusUnprocessableEntity)
			return
		}
		result := "SUCCESS"
		switch {
		case job.Payload.Number%100 == 7:
			result = "FAIL"
		case job.Payload.Number%20 == 3 && job.Attempt == 1:
			result = "RETRY"
		}
		book.add(run{ID: job.JobID, Attempt: job.Attempt, Start: time.Now().UnixMilli(), Result: result})
		fmt.Fprintf(w, `{"status":%q,"error":"as the test wants it"}`, result)
	}
}

func TestForeignEnvelopesThroughAnHTTPHandlerAreConserved(t *testing.T) {
	t.Parallel()
	book := &ledger{}
	server := httptest.NewServer(answerOrders(book))
	t.Cleanup(server.Close)
	l := newLab(t, strings.ReplaceAll(httpConfig, "HANDLER", server.URL))
	n := sized(5_000, 20_000)
	published := push(t, l.client, "orders", "order.paid", n, func(i int) string { return fmt.Sprintf(`{"number":%d}`, i) })

	p := l.start(binaries.stock, nil, "run", "--process=job-redis")
	eventually(t, 2*time.Minute, "every job has ended", func() bool {
		return len(results(book.all(), "SUCCESS", "FAIL")) == n
	})
	stopped := time.Now()
	p.stop(12 * time.Second)
	t.Logf("stopped within %s", time.Since(stopped).Round(time.Millisecond))

	h := holds(t, l.client, "orders")
	if d := conserve(t, published, h, book.all); d != 0 {
		t.Errorf("%d jobs ran to their end more than once", d)
	}
	if h.waiting() != 0 {
		t.Errorf("after the stop jobs are left: %d ready, %d delayed, %d in processing lists", len(h.ready), len(h.delayed), len(h.processing))
	}
	var failed []string
	for i, id := range published {
		if i%100 == 7 {
			failed = append(failed, id)
		}
	}
	sameIDs(t, "dead letters", h.dead, failed)
	if retried := results(book.all(), "RETRY"); len(retried) == 0 {
		t.Error("no job was retried")
	}
	for _, key := range keys(t, l.client, "*{orders}*") {
		if key != "job:dead:{orders}" && l.client.Type(t.Context(), key).Val() == "list" {
			t.Errorf("key %s holds jobs", key)
		}
	}
}
