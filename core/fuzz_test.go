package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecode holds Decode against encoding/json, and against itself.
func FuzzDecode(f *testing.F) {
	for _, vector := range seeds(f) {
		f.Add([]byte(vector))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		original := bytes.Clone(body)
		job, err := Decode(body)
		if !bytes.Equal(body, original) {
			t.Fatal("Decode changed the body")
		}
		checkSyntax(t, body, err)
		checkWrap(t, body, job)
		if err != nil {
			return
		}
		checkFields(t, body, job)
		checkStable(t, job)
	})
}

func seeds(f *testing.F) []string {
	f.Helper()
	return []string{
		canonical, `{}`, `[]`, `null`, `"a"`, ``, ` `, `{"jobType":"t"}`, `{"jobType":"\ud83d\ude00\ud800"}`,
		`{"jobType":"t","payload":[1.5e-3,true,false,null,"\u0041\n",{"a":{}}],"meta":{"priority":"high","a":1,"a":2},"x":1,"\u0078":2}`,
		`{"jobType":"t","attempt":"12abc","maxAttempts":2.5,"createdAt":1e400,"v":true}`,
		`{"jobType":"t","meta":{"backoff":{"type":"fixed","delay":5},"timeoutMs":1e9,"deadline":-1,"crashes":"x"}}`,
		`{"jobType":"t","payload":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	}
}

// checkSyntax: what is refused as JSON is what encoding/json refuses, at the
// same byte. (It also has a limit of depth, which we have not.)
func checkSyntax(t *testing.T, body []byte, err error) {
	t.Helper()
	text := ""
	if malformed, ok := errors.AsType[*MalformedError](err); ok {
		text = malformed.Text
	} else if err != nil {
		t.Fatalf("%v is no *MalformedError", err)
	}
	if utf8.Valid(body) == strings.HasPrefix(text, "not UTF-8") {
		t.Fatalf("%q: %q", body, text)
	}
	if !utf8.Valid(body) {
		return
	}
	var any json.RawMessage
	jsonErr := json.Unmarshal(body, &any)
	if jsonErr != nil && strings.Contains(jsonErr.Error(), "max depth") {
		return
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](jsonErr); ok {
		at := int(syntax.Offset) - 1 // it counts the bad byte
		// encoding/json tries a blank where the text ends too early.
		if strings.HasPrefix(jsonErr.Error(), "unexpected end") ||
			strings.HasPrefix(jsonErr.Error(), "invalid character ' '") && body[at] != ' ' {
			at = len(body)
		}
		if want := notJSON(at).Error(); text != want {
			t.Fatalf("%q: %q, encoding/json has %v: want %q", body, text, jsonErr, want)
		}
	} else if strings.HasPrefix(text, "not JSON") {
		t.Fatalf("%q: %q, but encoding/json takes it", body, text)
	}
}

// checkFields: the top level reads as encoding/json reads it.
func checkFields(t *testing.T, body []byte, job *Job) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return // too deep
	}
	payload := bytes.TrimSpace(fields["payload"])
	if len(payload) == 0 || string(payload) == "null" {
		payload = []byte("{}")
	}
	if !bytes.Equal(job.Payload, payload) {
		t.Fatalf("payload %s, want %s", job.Payload, payload)
	}
	var jobType string
	if err := json.Unmarshal(fields["jobType"], &jobType); err != nil || jobType != job.Type {
		t.Fatalf("type %q, want %q", job.Type, jobType)
	}
}

func checkStable(t *testing.T, job *Job) {
	t.Helper()
	first := job.Append(nil)
	again, err := Decode(first)
	if err != nil {
		t.Fatalf("%s: %v", first, err)
	}
	if second := again.Append(nil); !bytes.Equal(first, second) {
		t.Fatalf("first  %s\nsecond %s", first, second)
	}
	if !bytes.Equal(job.Payload, again.Payload) || !bytes.Equal(job.Meta.JSON(), again.Meta.JSON()) || job.ID != again.ID {
		t.Fatalf("%s reads as another job", first)
	}
	must(t, again.Meta.Set("new", 1))
	again.Meta.Delete("new")
	again.Meta.SetLastError(job.Type)
	if _, err := Decode(again.Append(nil)); err != nil {
		t.Fatalf("after editing meta: %v", err)
	}
}

// checkWrap: a text that is UTF-8 and no envelope becomes one.
func checkWrap(t *testing.T, body []byte, decoded *Job) {
	t.Helper()
	job, wrapped, err := Wrap(body, "default")
	switch {
	case wrapped:
		again, err := Decode(job.Append(nil))
		if err != nil || again.Type != "default" || !utf8.Valid(body) {
			t.Fatalf("%q wrapped as %s: %v", body, job.Append(nil), err)
		}
	case (err == nil) != (decoded != nil):
		t.Fatalf("%q: not wrapped, %v, but Decode gives %v", body, err, decoded)
	}
}

// FuzzMeta holds edits of meta against encoding/json.
func FuzzMeta(f *testing.F) {
	f.Add(`{"a":1,"b":[ ],"a":2}`, "a", `"x"`)
	f.Add(`{ "\u0061" : 1 , "crashes":3}`, "crashes", `4`)
	f.Add(`{}`, "ä\n", `{}`)
	f.Fuzz(func(t *testing.T, object, key, value string) {
		job, err := Decode([]byte(`{"jobType":"t","meta":` + object + `}`))
		var before map[string]json.RawMessage
		if err != nil || json.Unmarshal(job.Meta.JSON(), &before) != nil || !utf8.ValidString(key) {
			return
		}
		if err := job.Meta.Set(key, json.RawMessage(value)); (err == nil) != (json.Valid([]byte(value)) && utf8.ValidString(value)) {
			t.Fatalf("set %q to %q: %v", key, value, err)
		} else if err != nil {
			return
		}
		before[key] = json.RawMessage(strings.Trim(value, " \t\r\n"))
		checkMeta(t, &job.Meta, before)
		job.Meta.Delete(key)
		delete(before, key)
		checkMeta(t, &job.Meta, before)
	})
}

func checkMeta(t *testing.T, m *Meta, want map[string]json.RawMessage) {
	t.Helper()
	var got map[string]json.RawMessage
	if err := json.Unmarshal(m.JSON(), &got); err != nil {
		t.Fatalf("%s: %v", m.JSON(), err)
	}
	if !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		t.Fatalf("got %s, want %s", m.JSON(), want)
	}
	for key, value := range want {
		if !bytes.Equal(m.Get(key), value) {
			t.Fatalf("%q is %s, want %s", key, m.Get(key), value)
		}
	}
}
