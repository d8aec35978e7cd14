package deadletter

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/goconsumer/consumer/core"
)

func TestLogOnlyWarnsAndKeepsPayloadsOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	sink := NewLogOnly(slog.New(slog.NewTextHandler(&out, nil)), "p")
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "log_only") {
		t.Fatalf("at start: %s", &out)
	}
	job := decode(t, strings.Replace(envelope, `"o":{}`, `"secret":"canary"`, 1))
	if errs := sink.Store(t.Context(), []*core.DeadRecord{{Job: job, Error: "boom", Reason: "failed"}, {Raw: []byte("canary"), Reason: "malformed"}}); errs != nil {
		t.Fatal(errs)
	}
	if text := out.String(); strings.Contains(text, "canary") || !strings.Contains(text, "jobId=j1") || strings.Count(text, "level=ERROR") != 2 {
		t.Fatalf("logged: %s", text)
	}
}
