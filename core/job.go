package core

import "encoding/json"

// Job is one envelope. Decode reads it and Append writes it; payload bytes,
// unknown fields and untouched meta members pass through byte for byte.
type Job struct {
	V           int64           // 1 unless the producer said otherwise; not validated
	ID          string          // jobId
	Type        string          // jobType
	Payload     json.RawMessage // an object or a list, as it came
	Meta        Meta
	Attempt     int    // from 1
	MaxAttempts int    // 0 = the envelope has none: the process's policy decides
	CreatedAt   int64  // unix seconds; 0 is a legal value
	Format      Format // how Append writes it; Decode's are envelopes
	extra       []byte // unknown top-level members in arrival order, each as `,"key":value`
}
