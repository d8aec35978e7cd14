package core

import "time"

// Dead-letter reasons. A broker's own reasons keep the broker's word.
const (
	ReasonFailed       = "failed"
	ReasonExhausted    = "exhausted"
	ReasonUnregistered = "unregistered"
	ReasonMalformed    = "malformed"
	ReasonCrashed      = "crashed"
	ReasonTooLarge     = "too_large"
)

// DeadRecord is a job that will not be tried again, with why. Its wire form is
// in package deadletter.
type DeadRecord struct {
	Job       *Job   // nil for malformed and too large input
	Raw       []byte // the body as it came, when Job is nil
	Error     string // at most 4 KiB of valid UTF-8
	Reason    string
	At        time.Time
	Queue     string
	Process   string
	Transport string
	Source    string // Delivery.Ref; "" = none
}
