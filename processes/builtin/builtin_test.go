package builtin_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const envelope = `{"v":1,"jobId":"job_1","jobType":"order.paid","payload":{"n":9007199254740993,"e":[]},"meta":{"traceparent":"00-ab-cd-01"},"attempt":3,"maxAttempts":5,"createdAt":1720764000}`

func decode(t *testing.T, body string) *core.Job {
	t.Helper()
	job, err := core.Decode([]byte(body))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return job
}

// answer is what a handler's error says, in a form that compares.
type answer struct {
	status core.ResultStatus
	delay  time.Duration // -1: the policy's
	text   string        // "" = not compared
}

const policy = time.Duration(-1)

func check(t *testing.T, err error, want answer) {
	t.Helper()
	r := core.ResultOf(err)
	got := answer{r.Status, policy, ""}
	if r.HasDelay {
		got.delay = r.Delay
	}
	if want.text != "" && r.Err != nil {
		got.text = r.Err.Error()
	}
	if got != want {
		t.Errorf("got %v %v %q, want %v %v %q", got.status, got.delay, got.text, want.status, want.delay, want.text)
	}
}

func TestLogWritesALineWithoutThePayload(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := builtin.Log(slog.New(slog.NewJSONHandler(&out, nil)))
	if err := handler(t.Context(), decode(t, envelope)); err != nil {
		t.Fatalf("log: %v", err)
	}
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", out.Bytes(), err)
	}
	if line["msg"] != "job.received" || line["jobId"] != "job_1" || line["jobType"] != "order.paid" || line["attempt"] != 3.0 {
		t.Errorf("got %s", out.Bytes())
	}
	if strings.Contains(out.String(), "9007199254740993") {
		t.Errorf("the payload is in %s", out.Bytes())
	}
}
