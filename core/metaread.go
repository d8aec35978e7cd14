package core

import (
	"math"
	"strconv"
	"time"
)

// metaKnown is what this program reads from meta.
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

// read fills known from raw. The last of equal keys wins.
func (m *Meta) read() {
	m.known = metaKnown{}
	k := &m.known
	o := openObject(m.raw, 0)
	var e member
	for o.next(&e) {
		value := e.value.of(m.raw)
		switch string(e.name(m.raw)) {
		case "priority":
			k.priority, k.hasPriority = readPriority(value)
		case "timeoutMs":
			k.timeout = max(readMilliseconds(value), 0)
		case "deadline":
			k.deadline = saturate(readNumber(value))
		case "backoff":
			k.backoff = readBackoff(value)
		case "partitionKey":
			k.partitionKey = ""
			if value[0] == '"' {
				k.partitionKey = unquote(value)
			}
		case "crashes":
			k.crashes = readCounter(value)
		case "deferred":
			k.deferred = readCounter(value)
		case "replayed":
			k.replayed = readCounter(value)
		}
	}
}

// readNumber returns a JSON number, 0 for any other value and ±Inf out of range.
func readNumber(value []byte) float64 {
	if value[0] != '-' && !isDigit(value[0]) {
		return 0
	}
	f, _ := strconv.ParseFloat(string(value), 64)
	return f
}

func readCounter(value []byte) int {
	return int(min(max(readNumber(value), 0), math.MaxInt32))
}

// readMilliseconds saturates at the longest time.Duration.
func readMilliseconds(value []byte) time.Duration {
	return time.Duration(saturate(readNumber(value) * float64(time.Millisecond)))
}

func readPriority(value []byte) (p Priority, ok bool) {
	if value[0] == '"' {
		return ParsePriority(unquote(value))
	}
	return ParsePriority(string(value))
}

// readBackoff returns nil unless type is one of the three and delay is a number
// from 0.
func readBackoff(value []byte) *Backoff {
	if value[0] != '{' {
		return nil
	}
	var b Backoff
	hasDelay := false
	o := openObject(value, 0)
	var e member
	for o.next(&e) {
		v := e.value.of(value)
		switch string(e.name(value)) {
		case "type":
			b.Type = ""
			if v[0] == '"' {
				b.Type = RetryType(unquote(v))
			}
		case "delay":
			hasDelay = isDigit(v[0])
			b.Delay = readMilliseconds(v)
		}
	}
	if !hasDelay || !b.Type.valid() {
		return nil
	}
	return &b
}
