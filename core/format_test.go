package core

import (
	"errors"
	"testing"
	"time"
)

func TestADelayQueueMessageIsReadAndWrittenInItsOwnForm(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in      string
		attempt int
		out     string
	}{
		"all of it": {
			`{"id":"a","topic":"order.paid","payload":{"n":9007199254740993,"e":{}},"attempt":0,"max_retry":3,"born_at":1720764000}`, 1,
			`{"id":"a","topic":"order.paid","payload":{"n":9007199254740993,"e":{}},"attempt":0,"max_retry":3,"born_at":1720764000}`,
		},
		"in another order, with members of its own": {
			`{"born_at":12,"x":1.0,"attempt":"2","payload":[],"topic":"t","id":"a","max_retry":9,"jobType":"no"}`, 3,
			`{"id":"a","topic":"t","payload":[],"attempt":2,"max_retry":9,"born_at":12,"x":1.0,"jobType":"no"}`,
		},
		"with what a job must carry": {
			`{"id":"a","topic":"t","payload":{},"attempt":4,"max_retry":9,"born_at":12,"meta":{"crashes":1}}`, 5,
			`{"id":"a","topic":"t","payload":{},"attempt":4,"max_retry":9,"born_at":12,"meta":{"crashes":1}}`,
		},
		"negative": {`{"id":"a","topic":"t","payload":{},"attempt":-4,"born_at":0}`, 1, `{"id":"a","topic":"t","payload":{},"attempt":0,"born_at":0}`},
		"huge":     {`{"id":"a","topic":"t","payload":{},"attempt":1e99,"born_at":0}`, 1<<31 - 1, `{"id":"a","topic":"t","payload":{},"attempt":2147483646,"born_at":0}`},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job, err := FormatDelayQueue.Decode([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if job.Attempt != test.attempt || job.ID != "a" {
				t.Errorf("attempt %d of %q", job.Attempt, job.ID)
			}
			if out := string(job.Append(nil)); out != test.out {
				t.Errorf("written as\n%s\nwant\n%s", out, test.out)
			}
			again, err := DecodeAny([]byte(test.out))
			if name != "in another order, with members of its own" && (err != nil || again.Format != FormatDelayQueue) {
				t.Errorf("its form is not recognized: %v", err)
			}
		})
	}
}

func TestADelayQueueMessageWithoutATopicIsMalformed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"jobType":"t","payload":{}}`: "no jobType", `{"topic":"t","payload":1}`: "payload is not an object or list", `[]`: "not a JSON object", `{`: "not JSON at byte 1",
	} {
		_, err := FormatDelayQueue.Decode([]byte(in))
		var malformed *MalformedError
		if !errors.As(err, &malformed) || malformed.Text != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestARetryKeepsTheFormOfItsJob(t *testing.T) {
	t.Parallel()
	policy := Policy{Retry: DefaultRetryPolicy(), MaxDefers: 9}
	job, err := FormatDelayQueue.Decode([]byte(`{"id":"a","topic":"t","payload":{},"attempt":1,"max_retry":3,"born_at":12}`))
	if err != nil {
		t.Fatal(err)
	}
	retried := policy.After(job, ResultOf(RetryAfter(time.Second, errors.New("busy"))))
	if got, want := string(retried.Next.Append(nil)), `{"id":"a","topic":"t","payload":{},"attempt":2,"max_retry":3,"born_at":12}`; got != want {
		t.Errorf("the retry is\n%s\nwant\n%s", got, want)
	}
	deferred := policy.After(job, ResultOf(DeferAfter(time.Second, nil)))
	if got, want := string(deferred.Next.Append(nil)), `{"id":"a","topic":"t","payload":{},"attempt":1,"max_retry":3,"born_at":12,"meta":{"deferred":1}}`; got != want {
		t.Errorf("the deferred job is\n%s\nwant\n%s", got, want)
	}
	if got, want := string(job.As(FormatJob).Append(nil)), `{"v":1,"jobId":"a","jobType":"t","payload":{},"meta":{},"attempt":2,"maxAttempts":3,"createdAt":12}`; got != want {
		t.Errorf("as an envelope it is\n%s\nwant\n%s", got, want)
	}
}
