package core

import "errors"

// MalformedError says why a body is not an envelope; its text is the dead
// letter's error, one of the fixed sentences of the wire contract.
type MalformedError struct{ Text string }

func (e *MalformedError) Error() string { return e.Text }

// Decode reads an envelope. The job keeps slices of body, which must not change
// afterwards. A body that is no envelope gives a *MalformedError. A missing
// jobId leaves ID empty (see DeriveID); a missing createdAt is now.
func Decode(body []byte) (*Job, error) { return nil, errors.ErrUnsupported }

// Append writes the envelope in wire order after dst and returns the longer
// slice. MaxAttempts 0 is left out.
func (j *Job) Append(dst []byte) []byte { return dst }

// DeriveID gives the id of a job that came without one: the same at every
// delivery of the same bytes from the same queue.
func DeriveID(queue string, body []byte) string { return "" }

// NewID makes a fresh id: job_ + UTC YYYYMMDDhhmmss + _ + 12 hex.
func NewID() string { return "" }

// Wrap makes an envelope of a body that is none, for processes with a
// default_job_type. wrapped is false when body already is an envelope (then job is
// what Decode gives, error included).
func Wrap(body []byte, defaultType string) (job *Job, wrapped bool, err error) {
	return nil, false, errors.ErrUnsupported
}

// NewJob makes an envelope with a fresh id, attempt 1 and createdAt now. payload
// is marshalled with HTML characters left alone; json.RawMessage and []byte are
// taken as they are. It must become an object or a list; nil is {}.
func NewJob(jobType string, payload any) (*Job, error) { return nil, errors.ErrUnsupported }
