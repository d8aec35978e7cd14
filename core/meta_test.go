package core

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func metaOf(t *testing.T, object string) *Meta {
	t.Helper()
	return &decode(t, `{"jobType":"t","meta":`+object+`}`).Meta
}

func TestMetaSetKeepsEveryOtherMembersBytesAndPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, key, value, after string }{
		{`{}`, "a", `1`, `{"a":1}`},
		{`[]`, "a", `1`, `{"a":1}`},
		{`{"x":1.0,"y":[ 1, 2 ]}`, "a", `"<&>"`, `{"x":1.0,"y":[ 1, 2 ],"a":"<&>"}`},
		{`{"x":1,"a":0,"y":9007199254740993}`, "a", `{"n":{}}`, `{"x":1,"a":{"n":{}},"y":9007199254740993}`},
		{`{"\u0061":0,"y":{}}`, "a", `1`, `{"\u0061":1,"y":{}}`},
		{`{"a":1,"x":"\u00e9","a":2}`, "a", `3`, `{"a":3,"x":"\u00e9"}`},
		{`{"x":1,"x":2}`, "a", `3`, `{"x":1,"x":2,"a":3}`},
		{`{ "x" : 1 }`, "a\n", `3`, `{"x":1,"a\n":3}`},
	} {
		m := metaOf(t, c.before)
		must(t, m.Set(c.key, json.RawMessage(c.value)))
		if got := string(m.JSON()); got != c.after {
			t.Errorf("set %q in %s: %s, want %s", c.key, c.before, got, c.after)
		}
		if got := string(m.Get(c.key)); got != c.value {
			t.Errorf("%q is %s, want %s", c.key, got, c.value)
		}
	}
}

func TestMetaSetMarshalsValues(t *testing.T) {
	t.Parallel()
	var m Meta
	must(t, m.Set("text", "<ä>"))
	must(t, m.Set("list", []int{1, 2}))
	must(t, m.Set("nothing", nil))
	if got, want := string(m.JSON()), `{"text":"<ä>","list":[1,2],"nothing":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []any{json.RawMessage("{"), json.RawMessage(""), json.RawMessage("1 2"), json.RawMessage("\"\xff\""), math.NaN(), func() {}} {
		if err := m.Set("bad", bad); err == nil || m.Get("bad") != nil {
			t.Errorf("took %v: %v", bad, err)
		}
	}
}

func TestMetaDeleteKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after string }{
		{`{}`, `{}`},
		{`{"a":1}`, `{}`},
		{`{"a":1,"x":1}`, `{"x":1}`},
		{`{"x":1,"b":1,"y":[ ],"a":1}`, `{"x":1,"y":[ ]}`},
		{`{"a":1,"x":1,"\u0061":2}`, `{"x":1}`},
		{`{ "x" : 1 }`, `{ "x" : 1 }`}, // untouched
	} {
		m := metaOf(t, c.before)
		m.Delete("a", "b")
		if got := string(m.JSON()); got != c.after {
			t.Errorf("delete from %s: %s, want %s", c.before, got, c.after)
		}
	}
}

func TestMetaReadsTheLastOfTwins(t *testing.T) {
	t.Parallel()
	m := metaOf(t, `{"crashes":1,"k":"a","crashes":2,"\u006b":"b","priority":"high","priority":[],"partitionKey":"x","partitionKey":1}`)
	if _, set := m.Priority(); m.Crashes() != 2 || m.String("k") != "b" || set || m.PartitionKey() != "" {
		t.Errorf("got %+v", m.known)
	}
}

func TestMetaNeverChangesTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"jobType":"t","meta":{"a":1,"crashes":1,"b":2},"z":1}`)
	original := bytes.Clone(body)
	job, err := Decode(body)
	must(t, err)
	twin := *job
	must(t, job.Meta.Set("a", 9))
	job.Meta.Delete("b")
	job.Meta.SetLastError("x")
	must(t, twin.Meta.Set("crashes", 5))
	if !bytes.Equal(body, original) {
		t.Errorf("the body is now %s", body)
	}
	if got, want := string(job.Meta.JSON()), `{"a":9,"crashes":1,"lastError":"x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(twin.Meta.JSON()), `{"a":1,"crashes":5,"b":2}`; got != want || job.Meta.Crashes() != 1 {
		t.Errorf("the copy is %s, want %s", got, want)
	}
}

func TestMetaReadsItsMembers(t *testing.T) {
	t.Parallel()
	m := metaOf(t, `{"priority":"high","timeoutMs":1500.5,"deadline":1720764000123,"backoff":{"delay":250,"type":"linear","x":1},"partitionKey":"o-1","crashes":2,"deferred":3,"replayed":4e0,"tenantId":"t1"}`)
	if p, set := m.Priority(); p != PriorityHigh || !set {
		t.Errorf("priority %v, %v", p, set)
	}
	if d := m.Timeout(); d != 1500500*time.Microsecond {
		t.Errorf("timeout %v", d)
	}
	if at, set := m.Deadline(); at.UnixMilli() != 1720764000123 || !set {
		t.Errorf("deadline %v, %v", at, set)
	}
	if b := m.Backoff(); b == nil || *b != (Backoff{RetryLinear, 250 * time.Millisecond}) {
		t.Errorf("backoff %v", b)
	}
	if m.PartitionKey() != "o-1" || m.Crashes() != 2 || m.Deferred() != 3 || m.Replayed() != 4 || m.String("tenantId") != "t1" || m.String("crashes") != "" {
		t.Errorf("got %+v", m.known)
	}
	must(t, m.Set("deferred", 4))
	m.Delete("backoff")
	if m.Deferred() != 4 || m.Backoff() != nil || m.Crashes() != 2 {
		t.Errorf("after the edits: %+v", m.known)
	}
}

func TestMetaTakesAWrongTypeForAbsent(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`null`, `true`, `[]`, `{}`, `[1]`, `{"a":1}`, `"text"`, `""`, `-1e400`, `-7`} {
		m := metaOf(t, strings.ReplaceAll(`{"priority":V,"timeoutMs":V,"backoff":V,"crashes":V,"deferred":V,"replayed":V}`, "V", value))
		want := metaKnown{}
		if value[0] == '-' { // a priority all the same
			want.priority, want.hasPriority = m.Priority()
		}
		if m.known != want {
			t.Errorf("%s: %+v", value, m.known)
		}
	}
	for _, backoff := range []string{`{"type":"fixed"}`, `{"delay":1}`, `{"type":"cubic","delay":1}`, `{"type":"fixed","delay":"1"}`, `{"type":"fixed","delay":-1}`, `{"type":1,"delay":1}`} {
		if b := metaOf(t, `{"backoff":`+backoff+`}`).Backoff(); b != nil {
			t.Errorf("%s: %v", backoff, b)
		}
	}
	if at, set := metaOf(t, `{"deadline":"1720764000123"}`).Deadline(); set {
		t.Errorf("deadline %v", at)
	}
}

func TestMetaNumbersSaturate(t *testing.T) {
	t.Parallel()
	m := metaOf(t, `{"timeoutMs":1e300,"deadline":1e300,"crashes":1e300,"deferred":1e400,"backoff":{"type":"fixed","delay":1e300}}`)
	if m.Timeout() != math.MaxInt64 || m.Crashes() != math.MaxInt32 || m.Deferred() != math.MaxInt32 || m.Backoff().Delay != math.MaxInt64 {
		t.Errorf("got %+v", m.known)
	}
	if at, set := m.Deadline(); !set || !at.After(time.Now()) {
		t.Errorf("deadline %v, %v", at, set)
	}
}

func TestLastErrorIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	var m Meta
	m.SetLastError(strings.Repeat("ü", 300))
	if got := m.String("lastError"); got != strings.Repeat("ü", 200) {
		t.Errorf("got %d bytes", len(got))
	}
	m.SetLastError("bad \xff \"byte\"\n")
	if got, want := string(m.JSON()), `{"lastError":"bad ? \"byte\"\n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPriorityIsTheNearestLevelAndTiesGoUp(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Priority{
		`"critical"`: PriorityCritical, `"high"`: PriorityHigh, `"medium"`: PriorityMedium, `"normal"`: PriorityNormal, `"low"`: PriorityLow,
		`-15`: PriorityCritical, `-10`: PriorityHigh, `-5`: PriorityMedium, `0`: PriorityNormal, `10`: PriorityLow,
		`-1e9`: PriorityCritical, `-12.5`: PriorityCritical, `-12`: PriorityHigh, `-7.5`: PriorityHigh, `-7.4`: PriorityMedium,
		`-2.5`: PriorityMedium, `-2`: PriorityNormal, `5`: PriorityNormal, `5.01`: PriorityLow, `1e400`: PriorityLow, `"-10"`: PriorityHigh,
	} {
		if p, set := metaOf(t, `{"priority":`+value+`}`).Priority(); p != want || !set {
			t.Errorf("%s: %v, %v; want %v", value, p, set, want)
		}
	}
	for _, text := range []string{"", "High", "NaN", "0x1p4", "1_0", " 1", "1 ", "urgent"} {
		if p, ok := ParsePriority(text); ok {
			t.Errorf("%q was read as %v", text, p)
		}
	}
	if got := Priority(7).String(); got != "7" {
		t.Errorf("a number that is no level prints as %s", got)
	}
	for _, p := range Priorities() {
		if again, ok := ParsePriority(p.String()); again != p || !ok {
			t.Errorf("%v reads as %v", p, again)
		}
	}
}
