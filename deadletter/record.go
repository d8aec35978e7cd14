// Package deadletter keeps jobs that will not be tried again: the record and its
// wire form, what a store of them must do, filters, and a replay that cannot lose
// an entry.
package deadletter

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/goconsumer/consumer/core"
)

// MaxError is the longest error text in a record, in bytes.
const MaxError = 4 << 10

// Entry is one dead letter as a store holds it.
type Entry struct {
	Stored []byte // exactly the stored bytes; a store removes by them
	// ID is the job's id. A record without a readable job has one derived from its
	// queue and bytes, so that people can name it.
	ID     string
	Record core.DeadRecord // what could be read; Job is nil when there is none
	Err    error           // why the entry cannot be replayed; nil = it can
	// Native is the store's own handle. Nobody else reads it.
	Native any
}

// Append writes a record's wire form after dst and returns the longer slice. The
// first three members are those of the PHP tool, in its order.
func Append(dst []byte, r *core.DeadRecord) []byte {
	dst = append(dst, `{"job":`...)
	if r.Job != nil {
		dst = r.Job.Append(dst)
	} else {
		dst = append(dst, `null,"raw":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, r.Raw)
		dst = append(dst, '"')
	}
	dst = appendString(append(dst, `,"error":`...), CutError(r.Error))
	dst = strconv.AppendInt(append(dst, `,"at":`...), r.At.Unix(), 10)
	dst = appendString(append(dst, `,"reason":`...), r.Reason)
	dst = appendString(append(dst, `,"queue":`...), r.Queue)
	dst = appendString(append(dst, `,"process":`...), r.Process)
	dst = appendString(append(dst, `,"transport":`...), r.Transport)
	if r.Source != "" {
		dst = appendString(append(dst, `,"source":`...), r.Source)
	}
	return append(dst, '}')
}

// CutError shortens text to MaxError bytes of valid UTF-8, between characters.
func CutError(text string) string {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	if len(text) <= MaxError {
		return text
	}
	end := MaxError
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Read reads what a store holds. It never fails: what cannot be read is told by
// Entry.Err, with everything else that could. Members may be missing, as in the
// PHP tool's records of three.
func Read(stored []byte) *Entry {
	e := &Entry{Stored: stored}
	var members map[string]json.RawMessage // a map: its keys are case-sensitive
	if err := json.Unmarshal(stored, &members); err != nil || members == nil {
		e.ID = core.DeriveID("", stored)
		e.Err = errors.New("the entry is not a dead-letter record")
		return e
	}
	r := &e.Record
	for name, field := range map[string]*string{
		"error": &r.Error, "reason": &r.Reason, "queue": &r.Queue, "process": &r.Process, "transport": &r.Transport, "source": &r.Source,
	} {
		_ = json.Unmarshal(members[name], field) // of another type: stays empty
	}
	var at float64
	if json.Unmarshal(members["at"], &at) == nil {
		r.At = time.Unix(int64(at), 0)
	}
	e.readJob(members["job"], members["raw"])
	return e
}

func (e *Entry) readJob(job, raw json.RawMessage) {
	r := &e.Record
	if len(job) == 0 || string(job) == "null" {
		if json.Unmarshal(raw, &r.Raw) != nil || len(raw) == 0 {
			e.ID, e.Err = core.DeriveID(r.Queue, e.Stored), errors.New("the record has no job")
			return
		}
		e.ID = core.DeriveID(r.Queue, r.Raw)
		e.Err = fmt.Errorf("the record keeps raw input that is not a job (%s)", r.Reason)
		return
	}
	decoded, err := core.DecodeAny(job)
	if err != nil {
		e.ID, e.Err = core.DeriveID(r.Queue, e.Stored), fmt.Errorf("the record's job cannot be read: %w", err)
		return
	}
	if decoded.ID == "" {
		decoded.ID = core.DeriveID(r.Queue, job)
	}
	r.Job, e.ID = decoded, decoded.ID
}

// appendString writes a JSON string; HTML characters are left alone.
func appendString(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text { // invalid bytes become U+FFFD
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
