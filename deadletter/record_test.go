package deadletter

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goconsumer/consumer/core"
)

const envelope = `{"v":1,"jobId":"j1","jobType":"order.paid","payload":{"n":9007199254740993,"o":{},"l":[],"f":1.0},"meta":{"tenantId":"t1"},"attempt":3,"maxAttempts":5,"createdAt":1720764000,"custom":{"b":1}}`

func decode(t *testing.T, body string) *core.Job {
	t.Helper()
	job, err := core.Decode([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestRecordKeepsTheEnvelopeByteForByte(t *testing.T) {
	t.Parallel()
	r := &core.DeadRecord{Job: decode(t, envelope), Error: "a <b> \"c\"\n\x01\xff", Reason: "failed", At: time.Unix(1720764005, 0), Queue: "orders", Process: "p", Transport: "redis"}
	want := `{"job":` + envelope + `,"error":"a <b> \"c\"\n\u0001` + "\uFFFD" + `","at":1720764005,"reason":"failed","queue":"orders","process":"p","transport":"redis"}`
	got := string(Append(nil, r))
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	e := Read([]byte(got))
	if e.Err != nil || e.ID != "j1" || string(e.Record.Job.Append(nil)) != envelope || !e.Record.At.Equal(r.At) || e.Record.Reason != "failed" || e.Record.Queue != "orders" || e.Record.Process != "p" || e.Record.Transport != "redis" {
		t.Fatalf("read %+v", e)
	}
}

func TestRecordKeepsRawInput(t *testing.T) {
	t.Parallel()
	raw := []byte("\x00\xff not json")
	stored := Append(nil, &core.DeadRecord{Raw: raw, Error: "not JSON at byte 0", Reason: core.ReasonMalformed, Queue: "orders"})
	if !json.Valid(stored) || !strings.HasPrefix(string(stored), `{"job":null,"raw":"`) {
		t.Fatalf("stored %s", stored)
	}
	e := Read(stored)
	if e.Err == nil || string(e.Record.Raw) != string(raw) || e.ID != core.DeriveID("orders", raw) {
		t.Fatalf("read %+v", e)
	}
	if e := Read(Append(nil, &core.DeadRecord{Reason: core.ReasonMalformed})); e.Err == nil || len(e.Record.Raw) != 0 {
		t.Fatalf("an empty body: %+v", e)
	}
}

func TestReadTakesThePHPToolsRecordOfThree(t *testing.T) {
	t.Parallel()
	e := Read([]byte(`{"job":{"v":1,"jobId":"j","jobType":"t","payload":[],"meta":[],"attempt":2,"maxAttempts":5,"createdAt":1},"error":"fail","at":1720764000}`))
	if e.Err != nil || e.ID != "j" || e.Record.Error != "fail" || e.Record.Reason != "" || e.Record.At.Unix() != 1720764000 {
		t.Fatalf("read %+v", e)
	}
}

func TestReadToleratesWhatIsNoRecord(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"", "null", "[]", "{", `"x"`, "\xff", `{}`, `{"job":1}`, `{"job":{"payload":1}}`, `{"job":null}`, `{"job":null,"raw":"!"}`, `{"Job":` + envelope + `}`, `{"job":null,"raw":7,"error":{},"at":"x","reason":[]}`} {
		e := Read([]byte(stored))
		if e.Err == nil || e.ID == "" || e.Record.Job != nil || string(e.Stored) != stored {
			t.Errorf("%s: %+v", stored, e)
		}
	}
	if e := Read([]byte(`{"job":` + envelope + `,"error":1,"at":1e9}`)); e.Err != nil || e.ID != "j1" || e.Record.At.Unix() != 1e9 {
		t.Errorf("odd members beside a good job: %+v", e)
	}
}

func TestErrorsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("ä", 4000), "x" + strings.Repeat("€", 4000), strings.Repeat("x", MaxError), strings.Repeat("\xff", 5000)} {
		got := CutError(text)
		if len(got) > MaxError || len(got) < min(len(text), MaxError)-3 || !utf8.ValidString(got) {
			t.Errorf("%q…: %d bytes", text[:4], len(got))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"job":` + envelope + `,"error":"e","at":1}`))
	f.Add([]byte(`{"job":null,"raw":"AA==","reason":"malformed"}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		e := Read(stored)
		if e.ID == "" || (e.Err == nil) != (e.Record.Job != nil) {
			t.Fatalf("%+v", e)
		}
		if again := Read(Append(nil, &e.Record)); e.Err == nil && (again.Err != nil || again.ID != e.ID) {
			t.Fatalf("written and read again: %+v", again)
		}
	})
}
