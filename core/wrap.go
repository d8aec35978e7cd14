package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Wrap makes an envelope of a body that is none, for processes with a
// default_job_type: an object or a list becomes the payload as it is, any other
// text becomes {"value": text}. The wrapped job has no ID yet (see DeriveID).
//
// wrapped is false when body already is an envelope, an object with non-null
// jobType and jobId, or v and jobType (then job is what Decode gives, error
// included), and when it is not UTF-8, since JSON could not keep its bytes.
func Wrap(body []byte, defaultType string) (job *Job, wrapped bool, err error) {
	var f fields
	err = f.scan(body)
	var payload []byte
	switch {
	case err != nil && !utf8.Valid(body):
		return nil, false, err
	case err == nil && f.isEnvelope(body):
		job, err = f.job(body)
		return job, false, err
	case err == nil && (f.top == '{' || f.top == '['):
		payload = f.value.of(body)
	default:
		payload = append(appendString([]byte(`{"value":`), string(body)), '}')
	}
	return &Job{V: 1, Type: defaultType, Payload: payload, Attempt: 1, CreatedAt: time.Now().Unix()}, true, nil
}

func (f *fields) isEnvelope(body []byte) bool {
	given := func(s span) bool { return !s.absent() && body[s.start] != 'n' }
	return given(f.typ) && (given(f.id) || given(f.v))
}

// NewJob makes an envelope with a fresh id, attempt 1 and createdAt now. payload
// is marshalled with HTML characters left alone; json.RawMessage and []byte are
// taken as they are. It must become an object or a list; nil is {}.
func NewJob(jobType string, payload any) (*Job, error) {
	raw, err := marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("marshal payload of %q: %w", jobType, err)
	}
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	j := &Job{V: 1, ID: NewID(), Type: jobType, Payload: raw, Attempt: 1, CreatedAt: time.Now().Unix()}
	if err := j.check(); err != nil {
		return nil, err
	}
	return j, nil
}

// marshal is json.Marshal with HTML characters left alone and raw JSON taken as
// it is.
func marshal(value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return []byte("null"), nil
	case json.RawMessage:
		return bytes.Trim(v, " \t\r\n"), nil
	case []byte:
		return bytes.Trim(v, " \t\r\n"), nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// check says what keeps a job that was made in code from being an envelope.
func (j *Job) check() error {
	switch {
	case j.Type == "":
		return errors.New("job has no jobType")
	case !utf8.ValidString(j.Type) || !utf8.ValidString(j.ID):
		return fmt.Errorf("job %q: jobType and jobId must be UTF-8", j.Type)
	case len(j.Payload) == 0: // written as {}
		return nil
	case !isJSON(j.Payload):
		return fmt.Errorf("job %q: payload is not valid JSON", j.Type)
	}
	if first := j.Payload[skipSpace(j.Payload, 0)]; first != '{' && first != '[' {
		return fmt.Errorf("job %q: payload must be a JSON object or list", j.Type)
	}
	return nil
}

// isJSON says whether b is one JSON value in UTF-8.
func isJSON(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	end, ok := scanValue(b, skipSpace(b, 0))
	return ok && skipSpace(b, end) == len(b)
}
