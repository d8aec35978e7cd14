package core

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// MalformedError says why a body is not an envelope; its text is the dead
// letter's error, one of the fixed sentences of the wire contract.
type MalformedError struct{ Text string }

func (e *MalformedError) Error() string { return e.Text }

// Decode reads an envelope. The job keeps slices of body, which must not change
// afterwards. A body that is no envelope gives a *MalformedError. A missing
// jobId leaves ID empty (see DeriveID); a missing createdAt is now.
func Decode(body []byte) (*Job, error) {
	var f fields
	if err := f.scan(body); err != nil {
		return nil, err
	}
	return f.job(body)
}

// fields is where an envelope's top-level values lie in its body; of a key that
// comes twice, the last.
type fields struct {
	v, id, typ, payload, meta, attempt, maxAttempts, createdAt span

	top   byte // first byte of the value: '{', '[', …
	value span // the value without the space around it
	extra []member

	delayQueue bool // the names are those of FormatDelayQueue
}

// scan checks the whole body and fills f. Only an object has members; that the
// body is one is for the caller to check.
func (f *fields) scan(body []byte) error {
	if !utf8.Valid(body) {
		return &MalformedError{"not UTF-8 at byte " + strconv.Itoa(invalidUTF8(body))}
	}
	start := skipSpace(body, 0)
	end, ok := start, false
	switch {
	case start == len(body):
	case body[start] == '{':
		end, ok = f.scanMembers(body, start)
	default:
		end, ok = scanValue(body, start)
	}
	if ok {
		f.top, f.value = body[start], span{start, end}
		end = skipSpace(body, end)
		ok = end == len(body)
	}
	if !ok {
		return notJSON(end)
	}
	return nil
}

func notJSON(at int) error { return &MalformedError{"not JSON at byte " + strconv.Itoa(at)} }

func (f *fields) scanMembers(body []byte, start int) (end int, ok bool) {
	if f.delayQueue {
		return f.scanDelayQueue(body, start)
	}
	o := openObject(body, start)
	var m member
	for o.next(&m) {
		switch string(m.name(body)) {
		case "v":
			f.v = m.value
		case "jobId":
			f.id = m.value
		case "jobType":
			f.typ = m.value
		case "payload":
			f.payload = m.value
		case "meta":
			f.meta = m.value
		case "attempt":
			f.attempt = m.value
		case "maxAttempts":
			f.maxAttempts = m.value
		case "createdAt":
			f.createdAt = m.value
		default:
			if f.extra == nil {
				f.extra = make([]member, 0, 4)
			}
			f.extra = append(f.extra, m)
		}
	}
	return o.pos, o.ok
}

func invalidUTF8(body []byte) int {
	i := 0
	for i < len(body) {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		i += size
	}
	return i
}

// job reads the scanned fields.
func (f *fields) job(body []byte) (*Job, error) {
	if f.top != '{' {
		return nil, &MalformedError{"not a JSON object"}
	}
	if f.typ.absent() || body[f.typ.start] != '"' || f.typ.len() == len(`""`) {
		return nil, &MalformedError{"no jobType"}
	}
	payload := f.payload.of(body)
	switch {
	case f.payload.absent() || payload[0] == 'n':
		payload = []byte("{}")
	case payload[0] != '{' && payload[0] != '[':
		return nil, &MalformedError{"payload is not an object or list"}
	}
	j := &Job{V: 1, Type: unquote(f.typ.of(body)), Payload: payload, Attempt: 1}
	if !f.id.absent() && body[f.id.start] == '"' {
		j.ID = unquote(f.id.of(body))
	}
	if !f.meta.absent() && body[f.meta.start] == '{' {
		j.Meta.raw = f.meta.of(body)
		j.Meta.read()
	}
	j.readNumbers(f, body)
	if len(f.extra) > 0 {
		j.extra = joinExtra(body, f.extra)
	}
	return j, nil
}

func (j *Job) readNumbers(f *fields, body []byte) {
	if !f.v.absent() {
		if v, present := toInt(f.v.of(body)); present {
			j.V = v
		}
	}
	if !f.attempt.absent() {
		if n, present := toCount(f.attempt.of(body)); present {
			j.Attempt = n
		}
	}
	if !f.maxAttempts.absent() {
		if n, present := toCount(f.maxAttempts.of(body)); present {
			j.MaxAttempts = n
		}
	}
	if !f.createdAt.absent() {
		if at, present := toInt(f.createdAt.of(body)); present {
			j.CreatedAt = at
			return
		}
	}
	j.CreatedAt = time.Now().Unix()
}

// joinExtra writes unknown members one after the other, each behind a comma.
func joinExtra(body []byte, extra []member) []byte {
	extra = lastWins(body, extra)
	size := 0
	for i := range extra {
		size += len(",:") + extra[i].key.len() + extra[i].value.len()
	}
	out := make([]byte, 0, size)
	for i := range extra {
		out = append(out, ',')
		out = append(out, extra[i].key.of(body)...)
		out = append(out, ':')
		out = append(out, extra[i].value.of(body)...)
	}
	return out
}

// lastWins keeps, of members with the same key, the first one's place and the
// last one's value. It reuses the slice.
func lastWins(body []byte, all []member) []member {
	if len(all) < 2 {
		return all
	}
	places := make(map[string]int, len(all))
	kept := all[:0]
	for i := range all {
		m := &all[i]
		if at, twice := places[string(m.name(body))]; twice {
			kept[at].value = m.value
			continue
		}
		places[string(m.name(body))] = len(kept)
		kept = append(kept, *m)
	}
	return kept
}

// Append writes the job in its Format (an envelope where nothing says otherwise) and
// in wire order after dst and returns the longer slice. An empty ID and MaxAttempts
// 0 are left out.
func (j *Job) Append(dst []byte) []byte {
	if j.Format == FormatDelayQueue {
		return j.appendDelayQueue(dst)
	}
	const frame = len(`{"v":,"jobId":"","jobType":"","payload":{},"meta":{},"attempt":,"maxAttempts":,"createdAt":}`) + 32 // digits
	dst = slices.Grow(dst, frame+len(j.ID)+len(j.Type)+len(j.Payload)+len(j.Meta.raw)+len(j.extra))
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, j.V, 10)
	if j.ID != "" {
		dst = append(dst, `,"jobId":`...)
		dst = appendString(dst, j.ID)
	}
	dst = append(dst, `,"jobType":`...)
	dst = appendString(dst, j.Type)
	dst = append(dst, `,"payload":`...)
	if len(j.Payload) == 0 {
		dst = append(dst, "{}"...)
	}
	dst = append(dst, j.Payload...)
	dst = append(dst, `,"meta":`...)
	dst = append(dst, j.Meta.JSON()...)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendInt(dst, int64(max(j.Attempt, 1)), 10)
	if j.MaxAttempts > 0 {
		dst = append(dst, `,"maxAttempts":`...)
		dst = strconv.AppendInt(dst, int64(j.MaxAttempts), 10)
	}
	dst = append(dst, `,"createdAt":`...)
	dst = strconv.AppendInt(dst, j.CreatedAt, 10)
	dst = append(dst, j.extra...)
	return append(dst, '}')
}
