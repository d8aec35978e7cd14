package core

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Meta is the envelope's meta object: raw bytes plus the members that this
// program reads. Zero is {}. Members that are not set here keep their bytes. A
// known member of the wrong type counts as absent and keeps its bytes too. Copies
// are independent of each other.
type Meta struct {
	raw []byte // a JSON object, or nil for {}; never written into, only replaced

	known metaKnown
}

// Priority is meta.priority's nearest level; set is false when there is none, and
// p normal.
func (m *Meta) Priority() (p Priority, set bool) { return m.known.priority, m.known.hasPriority }

// Timeout is meta.timeoutMs; 0 = the process's.
func (m *Meta) Timeout() time.Duration { return m.known.timeout }

// Deadline is meta.deadline (unix ms); past it the job must not run any more.
func (m *Meta) Deadline() (t time.Time, set bool) {
	return time.UnixMilli(m.known.deadline), m.known.deadline != 0
}

// Backoff is the job's own delays; nil = the policy's.
func (m *Meta) Backoff() *Backoff { return m.known.backoff }

// PartitionKey is the order key; "" = none.
func (m *Meta) PartitionKey() string { return m.known.partitionKey }

// Crashes is how often the job is charged with its worker's end.
func (m *Meta) Crashes() int { return m.known.crashes }

// Deferred is how often the job was deferred.
func (m *Meta) Deferred() int { return m.known.deferred }

// Replayed is how often the job came back from the dead letters.
func (m *Meta) Replayed() int { return m.known.replayed }

// JSON returns the object's bytes, never empty. They must not be changed.
func (m *Meta) JSON() []byte {
	if len(m.raw) == 0 {
		return []byte("{}")
	}
	return m.raw
}

// Get returns the raw JSON of a member, nil when absent. It must not be changed.
func (m *Meta) Get(key string) []byte {
	var found span
	for _, e := range m.members() {
		if string(e.name(m.raw)) == key {
			found = e.value // the last of equal keys wins
		}
	}
	if found.absent() {
		return nil
	}
	return found.of(m.raw)
}

// String returns a member that is a string, "" otherwise.
func (m *Meta) String(key string) string {
	if value := m.Get(key); len(value) > 0 && value[0] == '"' {
		return unquote(value)
	}
	return ""
}

// Set replaces or appends a member; value is marshalled (json.RawMessage and
// []byte are taken as they are). Every other member keeps its bytes and place. It
// never changes bytes shared with a decoded body.
func (m *Meta) Set(key string, value any) error {
	raw, err := marshal(value)
	if err != nil {
		return fmt.Errorf("marshal meta.%s: %w", key, err)
	}
	if !isJSON(raw) {
		return fmt.Errorf("meta.%s is not valid JSON", key)
	}
	m.set(key, raw)
	return nil
}

// SetLastError records what went wrong last, cut to 200 characters.
func (m *Meta) SetLastError(text string) {
	m.set("lastError", appendString(nil, cutRunes(text, 200)))
}

// setCount sets a member to a number.
func (m *Meta) setCount(key string, n int) { m.set(key, strconv.AppendInt(nil, int64(n), 10)) }

func (m *Meta) set(key string, value []byte) {
	out := make([]byte, 0, len(m.raw)+len(key)+len(value)+len(`{,"":}`))
	out = append(out, '{')
	placed := false
	for _, e := range m.members() {
		if string(e.name(m.raw)) != key {
			out = appendMember(out, e.key.of(m.raw), e.value.of(m.raw))
			continue
		}
		if !placed { // later ones with the same key go
			out = appendMember(out, e.key.of(m.raw), value)
		}
		placed = true
	}
	if !placed {
		out = appendMember(out, appendString(nil, key), value)
	}
	m.raw = append(out, '}')
	m.read()
}

// Delete removes members if they are there.
func (m *Meta) Delete(keys ...string) {
	out := make([]byte, 0, len(m.raw)+len("{}"))
	out = append(out, '{')
	found := false
	for _, e := range m.members() {
		if slices.Contains(keys, string(e.name(m.raw))) {
			found = true
			continue
		}
		out = appendMember(out, e.key.of(m.raw), e.value.of(m.raw))
	}
	if found {
		m.raw = append(out, '}')
		m.read()
	}
}

// members lists the object's members, equal keys included.
func (m *Meta) members() []member {
	if len(m.raw) == 0 {
		return nil
	}
	var all []member
	o := openObject(m.raw, 0)
	var e member
	for o.next(&e) {
		all = append(all, e)
	}
	return all
}

// appendMember writes a member into the object that dst holds the beginning of.
func appendMember(dst, key, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, key...)
	dst = append(dst, ':')
	return append(dst, value...)
}
