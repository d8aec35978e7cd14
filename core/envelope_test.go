package core

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func decode(t *testing.T, body string) *Job {
	t.Helper()
	job, err := Decode([]byte(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return job
}

func TestDecodeSaysWhyABodyIsNoEnvelope(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                             "not JSON at byte 0",
		` `:                            "not JSON at byte 1",
		`hello`:                        "not JSON at byte 0",
		`nul`:                          "not JSON at byte 3",
		"\ufeff{}":                     "not JSON at byte 0",
		`{"jobType":"t"`:               "not JSON at byte 14",
		`{"jobType":"t",}`:             "not JSON at byte 15",
		`{"jobType":"t"}x`:             "not JSON at byte 15",
		`{"jobType":"t"} {}`:           "not JSON at byte 16",
		`{"jobType" "t"}`:              "not JSON at byte 11",
		`{jobType:"t"}`:                "not JSON at byte 1",
		`{"jobType":"t","a":[1,]}`:     "not JSON at byte 22",
		`{"jobType":"t","a":01}`:       "not JSON at byte 20",
		`{"jobType":"t","a":1.}`:       "not JSON at byte 21",
		`{"jobType":"t","a":-}`:        "not JSON at byte 20",
		`{"jobType":"t","a":"\x"}`:     "not JSON at byte 21",
		`{"jobType":"t","a":"\u12g4"}`: "not JSON at byte 24",
		"{\"jobType\":\"t\n\"}":        "not JSON at byte 13",
		`{"jobType":"t","a":tru}`:      "not JSON at byte 22",
		`{"jobType":"t","a":[1 2]}`:    "not JSON at byte 22",
		`{"jobType":"t","a":[1}}`:      "not JSON at byte 21",
		`{"jobType":"t","a":{]}`:       "not JSON at byte 20",
		"{\"jobType\":\"t\xff\"}":      "not UTF-8 at byte 13",
		"nonsense \xc3(":               "not UTF-8 at byte 9",
		"\xed\xa0\x80":                 "not UTF-8 at byte 0", // a surrogate
		"{\"jobType\":\"\xe2\x82":      "not UTF-8 at byte 12",
		`[]`:                           "not a JSON object",
		`[{"jobType":"t"}]`:            "not a JSON object",
		`null`:                         "not a JSON object",
		` "text" `:                     "not a JSON object",
		`123`:                          "not a JSON object",
		`{}`:                           "no jobType",
		`{"jobType":""}`:               "no jobType",
		`{"jobType":null}`:             "no jobType",
		`{"jobType":7}`:                "no jobType",
		`{"jobType":["t"]}`:            "no jobType",
		`{"JobType":"t"}`:              "no jobType",
		`{"jobType":"t","jobType":5}`:  "no jobType", // the last wins
		`{"payload":1}`:                "no jobType",
		`{"jobType":"t","payload":1}`:  "payload is not an object or list",
		`{"jobType":"t","payload":""}`: "payload is not an object or list",
		`{"jobType":"t","payload":{},"payload":false}`: "payload is not an object or list",
	} {
		job, err := Decode([]byte(body))
		malformed, ok := errors.AsType[*MalformedError](err)
		if !ok || malformed.Text != want || job != nil {
			t.Errorf("%q: %v, %v; want %s", body, job, err, want)
		}
	}
}

func TestATruncatedEnvelopeEndsTooEarly(t *testing.T) {
	t.Parallel()
	body := ` { "jobType" : "\u0074\n" , "payload" : [ -1.5e+10 , { "a" : { } , "b" : [ ] } , true , false , null , 0 ] , "meta" : { "x" : 1 } } `
	decode(t, body)
	for i := range len(body) - 1 {
		if _, err := Decode([]byte(body[:i])); err == nil || err.Error() != notJSON(i).Error() {
			t.Errorf("%s: %v", body[:i], err)
		}
	}
}

func TestEnvelopesPassThroughByteForByte(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		canonical,
		`{"v":1,"jobId":"a","jobType":"t","payload":{ "big" : 9007199254740993, "f":1.0, "e":1E+2, "u":"\u00e9<&>\/", "o":{}, "l":[ ] },"meta":{"x":[],"y":{}},"attempt":1,"createdAt":0}`,
		`{"v":99,"jobId":"a","jobType":"订单","payload":[],"meta":{},"attempt":2,"maxAttempts":3,"createdAt":-5,"__id":"ab","__retry_num":0,"extra":{"a":[1, 2]}}`,
		`{"v":-1,"jobId":"\"\\\b\f\n\r\t\u0001","jobType":"<&>","payload":{},"meta":{},"attempt":2147483647,"maxAttempts":2147483647,"createdAt":9223372036854775807}`,
		`{"v":1,"jobType":"no id","payload":{},"meta":{},"attempt":1,"createdAt":1}`,
	} {
		if got := string(decode(t, body).Append(nil)); got != body {
			t.Errorf("got  %s\nwant %s", got, body)
		}
	}
}

func TestEnvelopesAreWrittenInWireOrder(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		` { "z" : 1 , "createdAt" : 7 , "payload" : [1 , 2] , "jobType" : "t" , "y" : {"a" : 1} , "jobId" : "i" , "v" : 1 } `: `{"v":1,"jobId":"i","jobType":"t","payload":[1 , 2],"meta":{},"attempt":1,"createdAt":7,"z":1,"y":{"a" : 1}}`,
		`{"jobType":"t","createdAt":1,"payload":null,"meta":null}`:                                                            `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1}`,
		`{"jobType":"t","createdAt":1,"meta":[]}`:                                                                             `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1}`,
		`{"jobType":"t","createdAt":1,"meta":"text"}`:                                                                         `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1}`,
		`{"jobType":"t","createdAt":1,"jobId":17}`:                                                                            `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1}`,
		`{"jobType":"t","createdAt":1,"jobId":""}`:                                                                            `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1}`,
		`{"jobType":"t","createdAt":1,"JobId":"a","V":2}`:                                                                     `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1,"JobId":"a","V":2}`,
		// Keys are compared without their escapes; of twins the last value wins.
		`{"job\u0054ype":"a","jobType":"b","createdAt":1,"x":1,"y":2,"\u0078":3}`: `{"v":1,"jobType":"b","payload":{},"meta":{},"attempt":1,"createdAt":1,"x":3,"y":2}`,
		`{"jobType":"a","job\u0054ype":"\u0062","createdAt":1,"\u0078":1,"x":3}`:  `{"v":1,"jobType":"b","payload":{},"meta":{},"attempt":1,"createdAt":1,"\u0078":3}`,
		`{"jobType":"t","createdAt":1,"":1}`:                                      `{"v":1,"jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1,"":1}`,
	} {
		if got := string(decode(t, body).Append(nil)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNumbersAreReadAsPHPReadsThem(t *testing.T) {
	t.Parallel()
	const missing = math.MinInt64 + 1
	for value, want := range map[string]int64{
		`3`: 3, `-3`: -3, `0`: 0, `-0`: 0, `2.9`: 2, `-2.9`: -2, `1e3`: 1000, `1.5e1`: 15,
		`true`: 1, `false`: 0, `null`: missing, `[]`: missing, `[5]`: missing, `{}`: missing, `{"a":1}`: missing,
		`"12"`: 12, `"12abc"`: 12, `"abc"`: 0, `""`: 0, `" \t\n\r\u000b\f 7"`: 7, `"7 "`: 7, `"\u00007"`: 0, `"+7"`: 7, `"-7"`: -7,
		`"+-7"`: 0, `"1.9"`: 1, `"-1.9"`: -1, `".9e1"`: 9, `"."`: 0, `".e5"`: 0, `"5."`: 5, `"1.e3"`: 1000, `"1e3"`: 1000,
		`"1e"`: 1, `"1e+"`: 1, `"1e+2x"`: 100, `"0x1A"`: 0, `"0b11"`: 0, `"1_000"`: 1, `"007"`: 7, `"\u0037"`: 7, `"inf"`: 0, `"nan"`: 0, `"٣"`: 0,
		`999999999999999999`:  999999999999999999,
		`9223372036854775807`: math.MaxInt64, `9223372036854775808`: math.MaxInt64, `1e400`: math.MaxInt64, `"1e400"`: math.MaxInt64,
		`-9223372036854775808`: math.MinInt64, `-1e400`: math.MinInt64, `"99999999999999999999"`: math.MaxInt64, `9.3e18`: math.MaxInt64,
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			before := time.Now().Unix()
			job := decode(t, fmt.Sprintf(`{"jobType":"t","v":%s,"attempt":%s,"maxAttempts":%s,"createdAt":%s}`, value, value, value, value))
			count := int(min(max(want, 1), math.MaxInt32))
			wantJob := Job{V: want, Attempt: count, MaxAttempts: count, CreatedAt: want}
			if want == missing {
				wantJob = Job{V: 1, Attempt: 1, MaxAttempts: 0, CreatedAt: job.CreatedAt}
				if job.CreatedAt < before || job.CreatedAt > time.Now().Unix() {
					t.Errorf("createdAt %d is not now", job.CreatedAt)
				}
			}
			if job.V != wantJob.V || job.Attempt != wantJob.Attempt || job.MaxAttempts != wantJob.MaxAttempts || job.CreatedAt != wantJob.CreatedAt {
				t.Errorf("got v %d, attempt %d, maxAttempts %d, createdAt %d; want %d, %d, %d, %d", job.V, job.Attempt, job.MaxAttempts, job.CreatedAt,
					wantJob.V, wantJob.Attempt, wantJob.MaxAttempts, wantJob.CreatedAt)
			}
		})
	}
}

func TestDecodeTakesAnyDepth(t *testing.T) {
	t.Parallel()
	const depth = 1_000_000
	payload := strings.Repeat(`[{"a":`, depth) + "1" + strings.Repeat("}]", depth)
	if got := decode(t, `{"jobType":"t","payload":`+payload+`}`); string(got.Payload) != payload {
		t.Error("the payload changed")
	}
}

func TestDecodeTakesManyUnknownFields(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString(`{"v":1,"jobId":"a","jobType":"t","payload":{},"meta":{},"attempt":1,"createdAt":1`)
	for i := range 100_000 {
		fmt.Fprintf(&body, `,"field %d":%d`, i, i)
	}
	body.WriteString("}")
	if got := string(decode(t, body.String()).Append(nil)); got != body.String() {
		t.Error("the envelope changed")
	}
}

func TestAppendWritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	job := Job{V: 1, ID: "bad \xff byte", Type: "a\u2028<b>"}
	want := `{"v":1,"jobId":"bad ` + "\ufffd" + ` byte","jobType":"a` + "\u2028" + `<b>","payload":{},"meta":{},"attempt":1,"createdAt":0}`
	got := string(job.Append([]byte("before ")))
	if got != "before "+want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
