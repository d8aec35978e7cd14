package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goconsumer/consumer/core"
)

// reply is what an endpoint or a command can say in words.
type reply struct {
	status   core.ResultStatus
	error    string
	delay    time.Duration // retryAfterMs, from 0
	hasDelay bool
}

// parseReply reads {"status":…,"error":…,"retryAfterMs":…}. ok is false for
// everything else, also for a status that is none of the words; message is then
// the error text of a JSON object, for people. As scripts write them, a byte order
// mark may stand before it and retryAfterMs may be a string.
func parseReply(body []byte) (r reply, message string, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if body = bytes.TrimSpace(body); len(body) == 0 || body[0] != '{' {
		return reply{}, "", false
	}
	var fields struct {
		Status       any `json:"status"`
		Error        any `json:"error"`
		RetryAfterMs any `json:"retryAfterMs"`
	}
	if json.Unmarshal(body, &fields) != nil {
		return reply{}, "", false
	}
	message, _ = fields.Error.(string)
	word, _ := fields.Status.(string)
	if r.status, ok = statusOf(word); !ok {
		return reply{}, message, false
	}
	r.error = message
	if ms, isNumber := numberOf(fields.RetryAfterMs); isNumber {
		r.delay, r.hasDelay = milliseconds(ms), true
	}
	return r, message, true
}

func numberOf(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil && !math.IsNaN(n)
	}
	return 0, false
}

func statusOf(word string) (core.ResultStatus, bool) {
	for s := core.StatusSuccess; s <= core.StatusDefer; s++ {
		if strings.EqualFold(word, s.String()) {
			return s, true
		}
	}
	return 0, false
}

// milliseconds saturates.
func milliseconds(ms float64) time.Duration {
	return time.Duration(min(max(ms, 0)*float64(time.Millisecond), math.MaxInt64/2))
}

// result is the handler's answer; fallback names what happened when the reply
// gives no error text.
func (r reply) result(fallback string) error {
	text := r.error
	if text == "" {
		text = fallback
	}
	return result(r.status, errors.New(text), r.delay, r.hasDelay)
}

// result makes the error that stands for a status.
func result(status core.ResultStatus, cause error, delay time.Duration, hasDelay bool) error {
	if status == core.StatusSuccess {
		return nil
	}
	return &core.Result{Status: status, Err: cause, Delay: delay, HasDelay: hasDelay}
}
