package core

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestWrapKeepsTheBytesOfObjectsAndLists(t *testing.T) {
	t.Parallel()
	for body, payload := range map[string]string{
		` { "a" : 9007199254740993 } `:          `{ "a" : 9007199254740993 }`,
		"[1, 2.0]\n":                            `[1, 2.0]`,
		`{"jobType":"t"}`:                       `{"jobType":"t"}`,
		`{"jobType":null,"v":1,"jobId":"a"}`:    `{"jobType":null,"v":1,"jobId":"a"}`,
		`{"jobType":"t","jobId":null,"v":null}`: `{"jobType":"t","jobId":null,"v":null}`,
		`"text"`:                                `{"value":"\"text\""}`,
		` 7 `:                                   `{"value":" 7 "}`,
		`{"broken":`:                            `{"value":"{\"broken\":"}`,
		"":                                      `{"value":""}`,
		"tab\tü<":                               `{"value":"tab\tü<"}`,
	} {
		job, wrapped, err := Wrap([]byte(body), "legacy")
		if err != nil || !wrapped {
			t.Errorf("%q: %v, %v", body, wrapped, err)
			continue
		}
		if string(job.Payload) != payload || job.Type != "legacy" || job.ID != "" || job.Attempt != 1 || job.MaxAttempts != 0 || job.V != 1 {
			t.Errorf("%q became %s", body, job.Append(nil))
		}
	}
}

func TestWrapLeavesEnvelopesAlone(t *testing.T) {
	t.Parallel()
	for body, fault := range map[string]string{
		`{"jobType":"t","jobId":"a","extra":1}`: "",
		`{"jobType":"t","v":0}`:                 "",
		`{"jobType":"","jobId":"a"}`:            "no jobType",
		`{"jobType":7,"jobId":"a"}`:             "no jobType",
		`{"jobType":"t","v":1,"payload":5}`:     "payload is not an object or list",
		"text \xff":                             "not UTF-8 at byte 5",
	} {
		job, wrapped, err := Wrap([]byte(body), "legacy")
		if fault == "" {
			if err != nil || wrapped || job.Type != "t" {
				t.Errorf("%s: %v, %v, %v", body, job, wrapped, err)
			}
			continue
		}
		malformed, ok := errors.AsType[*MalformedError](err)
		if !ok || malformed.Text != fault || wrapped || job != nil {
			t.Errorf("%q: %v, %v, %v; want %s", body, job, wrapped, err, fault)
		}
	}
}

func TestNewJobMakesACompleteEnvelope(t *testing.T) {
	t.Parallel()
	before := time.Now().Unix()
	for _, c := range []struct {
		payload any
		want    string
	}{
		{nil, `{}`},
		{map[string]any(nil), `{}`},
		{json.RawMessage(nil), `{}`},
		{map[string]string{"a": "<&>\u2028"}, `{"a":"<&>\u2028"}`},
		{[]int{1, 2}, `[1,2]`},
		{json.RawMessage(" {\"n\": 1.0}\n"), `{"n": 1.0}`},
		{[]byte(`[9007199254740993]`), `[9007199254740993]`},
	} {
		job, err := NewJob("t", c.payload)
		must(t, err)
		if string(job.Payload) != c.want {
			t.Errorf("payload %s, want %s", job.Payload, c.want)
		}
		if job.V != 1 || job.Type != "t" || job.Attempt != 1 || job.MaxAttempts != 0 || job.CreatedAt < before || job.ID == "" {
			t.Errorf("got %s", job.Append(nil))
		}
	}
}

func TestNewJobRefusesWhatIsNoEnvelope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jobType string
		payload any
		mention string
	}{
		{"", nil, "jobType"},
		{"bad \xff", nil, "UTF-8"},
		{"t", "text", "object or list"},
		{"t", 7, "object or list"},
		{"t", []byte(`{"a":`), "not valid JSON"},
		{"t", json.RawMessage("{}x"), "not valid JSON"},
		{"t", func() {}, "marshal"},
	} {
		job, err := NewJob(c.jobType, c.payload)
		if err == nil || job != nil || !strings.Contains(err.Error(), c.mention) {
			t.Errorf("NewJob(%q, %T): %v", c.jobType, c.payload, err)
		}
	}
}

func TestNewIDsAreFreshAndDerivedOnesStable(t *testing.T) {
	t.Parallel()
	fresh := regexp.MustCompile(`^job_\d{14}_[0-9a-f]{12}$`)
	a, b := NewID(), NewID()
	if !fresh.MatchString(a) || a == b {
		t.Errorf("fresh ids %q and %q", a, b)
	}
	// printf 'orders\0{}' | sha256sum
	if got, want := DeriveID("orders", []byte("{}")), "job_f244f9e10513386cb7df5027"; got != want {
		t.Errorf("derived %q, want %q", got, want)
	}
	if DeriveID("a", []byte("b")) == DeriveID("ab", nil) {
		t.Error("queue and body are not told apart")
	}
}
