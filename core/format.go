package core

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Format is the form in which a process's jobs are on the wire. A job keeps the one
// that it was read in: Append writes it again, so retries and dead letters have it
// too.
type Format string

const (
	// FormatJob is the envelope; "" means it too.
	FormatJob Format = "job"
	// FormatDelayQueue is the message of a delay queue: {id, topic, payload,
	// attempt, max_retry, born_at}. topic is the job's type; attempt counts from 0,
	// a job's from 1. It has no meta: one is written only where the job must carry
	// something there (crashes, deferred, replayed), and never an error.
	FormatDelayQueue Format = "delayqueue"
)

// Decode reads a body in this form, see the function Decode.
func (f Format) Decode(body []byte) (*Job, error) {
	if f != FormatDelayQueue {
		return Decode(body)
	}
	scanned := fields{delayQueue: true}
	if err := scanned.scan(body); err != nil {
		return nil, err
	}
	job, err := scanned.job(body)
	if err != nil {
		return nil, err
	}
	job.Format = FormatDelayQueue
	if a := scanned.attempt; !a.absent() {
		if n, present := toInt(a.of(body)); present {
			job.Attempt = int(min(max(n, 0), math.MaxInt32-1)) + 1
		}
	}
	return job, nil
}

// DecodeAny reads a body in whichever form it is; where nothing says so, as an
// envelope.
func DecodeAny(body []byte) (*Job, error) {
	job, err := Decode(body)
	if err == nil {
		return job, nil
	}
	if other, otherErr := FormatDelayQueue.Decode(body); otherErr == nil {
		return other, nil
	}
	return nil, err
}

// As is the job in another form.
func (j *Job) As(f Format) *Job {
	if f == FormatJob {
		f = ""
	}
	if j.Format == f {
		return j
	}
	as := *j
	as.Format = f
	return &as
}

// scanDelayQueue is scanMembers for the names of FormatDelayQueue.
func (f *fields) scanDelayQueue(body []byte, start int) (end int, ok bool) {
	o := openObject(body, start)
	var m member
	for o.next(&m) {
		switch string(m.name(body)) {
		case "id":
			f.id = m.value
		case "topic":
			f.typ = m.value
		case "payload":
			f.payload = m.value
		case "meta":
			f.meta = m.value
		case "attempt":
			f.attempt = m.value
		case "max_retry":
			f.maxAttempts = m.value
		case "born_at":
			f.createdAt = m.value
		default:
			f.extra = append(f.extra, m)
		}
	}
	return o.pos, o.ok
}

// appendDelayQueue is Append for FormatDelayQueue.
func (j *Job) appendDelayQueue(dst []byte) []byte {
	dst = slices.Grow(dst, 128+len(j.ID)+len(j.Type)+len(j.Payload)+len(j.Meta.raw)+len(j.extra))
	dst = append(dst, '{')
	if j.ID != "" {
		dst = append(dst, `"id":`...)
		dst = append(appendString(dst, j.ID), ',')
	}
	dst = append(dst, `"topic":`...)
	dst = append(appendString(dst, j.Type), `,"payload":`...)
	if len(j.Payload) == 0 {
		dst = append(dst, "{}"...)
	}
	dst = append(append(dst, j.Payload...), `,"attempt":`...)
	dst = strconv.AppendInt(dst, int64(max(j.Attempt, 1)-1), 10)
	if j.MaxAttempts > 0 {
		dst = append(dst, `,"max_retry":`...)
		dst = strconv.AppendInt(dst, int64(j.MaxAttempts), 10)
	}
	dst = append(dst, `,"born_at":`...)
	dst = strconv.AppendInt(dst, j.CreatedAt, 10)
	if len(j.Meta.raw) > len("{}") {
		dst = append(append(dst, `,"meta":`...), j.Meta.raw...)
	}
	return append(append(dst, j.extra...), '}')
}

// check refuses an unknown form.
func (f Format) check() error {
	if f == "" || f == FormatJob || f == FormatDelayQueue {
		return nil
	}
	return fmt.Errorf("format %q is unknown: use job or delayqueue", string(f))
}
