package core

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"
)

// phpVectors is what the PHP producer's own code makes of its inputs.
type phpVectors struct {
	Envelope []struct {
		Name, In, Out, Error string
		GeneratedJobID       bool `json:"generatedJobId"`
	}
	Legacy []struct{ In, Out, Error string }
	Delays map[string]int64 `json:"delays_default_no_jitter"`
}

func readVectors(t *testing.T) phpVectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/php.json")
	if err != nil {
		t.Fatal(err)
	}
	var v phpVectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// phpView is an envelope as PHP sees it: {} and [] are alike, numbers are
// floats, and what differs from run to run has a placeholder.
func phpView(t *testing.T, envelope []byte) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(envelope, &fields); err != nil {
		t.Fatalf("%v in %s", err, envelope)
	}
	out, err := json.Marshal(emptyAlike(fields))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func emptyAlike(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = emptyAlike(member)
		}
		if len(v) == 0 {
			return []any{}
		}
	case []any:
		for i := range v {
			v[i] = emptyAlike(v[i])
		}
	}
	return value
}

// asPHP fills in what PHP fills in by itself.
func asPHP(j *Job, before time.Time) []byte {
	out := *j
	if out.ID == "" {
		out.ID = "<generated>"
	}
	if out.MaxAttempts == 0 {
		out.MaxAttempts = 5
	}
	out.extra = nil
	body := out.Append(nil)
	if out.CreatedAt >= before.Unix() {
		now := strconv.FormatInt(out.CreatedAt, 10)
		body = bytes.Replace(body, []byte(`"createdAt":`+now), []byte(`"createdAt":"<now>"`), 1)
	}
	return body
}

func TestDecodeAgreesWithThePHPProducer(t *testing.T) {
	t.Parallel()
	for _, vector := range readVectors(t).Envelope {
		t.Run(vector.Name, func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			job, err := Decode([]byte(vector.In))
			if (err != nil) != (vector.Error != "") {
				t.Fatalf("got error %v, PHP has %q", err, vector.Error)
			}
			if err != nil {
				return
			}
			if (job.ID == "") != vector.GeneratedJobID {
				t.Errorf("id %q, but PHP makes one: %v", job.ID, vector.GeneratedJobID)
			}
			if got, want := phpView(t, asPHP(job, before)), phpView(t, []byte(vector.Out)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestWrapAgreesWithThePHPConsumer(t *testing.T) {
	t.Parallel()
	for _, vector := range readVectors(t).Legacy {
		t.Run(vector.In, func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			job, _, err := Wrap([]byte(vector.In), "legacy.type")
			if (err != nil) != (vector.Error != "") {
				t.Fatalf("got error %v, PHP has %q", err, vector.Error)
			}
			if err != nil {
				return
			}
			if got, want := phpView(t, asPHP(job, before)), phpView(t, []byte(vector.Out)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestDelaysAgreeWithPHP(t *testing.T) {
	t.Parallel()
	policy := DefaultRetryPolicy()
	policy.Jitter = 0
	for attempt, want := range readVectors(t).Delays {
		n, err := strconv.Atoi(attempt)
		if err != nil {
			t.Fatal(err)
		}
		if got := policy.Delay(n, nil, 0.5).Milliseconds(); got != want {
			t.Errorf("after attempt %d: %d ms, want %d", n, got, want)
		}
	}
}
