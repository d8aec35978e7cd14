package redis

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/goconsumer/consumer/core"
)

// What a job must carry so that its way through the queue's keys loses nothing: the
// level of the list that it came from, and the members that PHP looks for.

// stored is the body of a job that is to be stored again, after it came from the
// ready list with this number (0 = unknown).
func (k *keys) stored(body []byte, list int) []byte {
	if p, ok := k.levelOf(list); ok {
		if job, err := core.Decode(body); err == nil && withLevel(job, p) {
			body = job.Append(nil)
		}
	}
	return k.dressed(body, 1)
}

// ofList is a dead letter whose job keeps the level of its list.
func (k *keys) ofList(r *core.DeadRecord, list int) *core.DeadRecord {
	p, ok := k.levelOf(list)
	if !ok || r.Job == nil {
		return r
	}
	job := *r.Job
	if !withLevel(&job, p) {
		return r
	}
	kept := *r
	kept.Job = &job
	return &kept
}

// levelOf is the priority of the jobs of a list; ok is false where their list says
// nothing that a job without meta.priority needs.
func (k *keys) levelOf(list int) (p core.Priority, ok bool) {
	if !k.ranked() || list == 0 || list == k.place(core.PriorityNormal) {
		return 0, false
	}
	// Of a list with several levels the lowest that still runs before normal.
	at := strings.LastIndexByte(k.places, byte('0'+list))
	return core.Priorities()[at], true
}

// withLevel gives a job that has no priority one; it says whether it did.
func withLevel(job *core.Job, p core.Priority) bool {
	if _, set := job.Meta.Priority(); set || job.Format == core.FormatDelayQueue {
		return false
	}
	return job.Meta.Set("priority", p.String()) == nil
}

// dressed is a job with the members __id and __retry_num where PHP shares the keys:
// its retry raises an error over a job without them, and that loses the job. What is
// there already keeps its bytes.
func (k *keys) dressed(body []byte, retries int) []byte {
	if !k.php {
		return body
	}
	var members map[string]json.RawMessage
	end := bytes.LastIndexByte(body, '}')
	if json.Unmarshal(body, &members) != nil || end < 0 || len(members) == 0 {
		return body // not an envelope, and nothing that we made
	}
	out := bytes.Clone(body[:end])
	if members["__id"] == nil {
		var random [16]byte
		_, _ = rand.Read(random[:]) // never fails
		out = append(out, `,"__id":"`...)
		out = append(hex.AppendEncode(out, random[:]), '"')
	}
	if members["__retry_num"] == nil {
		out = append(out, `,"__retry_num":`...)
		out = append(out, byte('0'+retries))
	}
	return append(out, '}')
}
