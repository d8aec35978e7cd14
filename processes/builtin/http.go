package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goconsumer/consumer/core"
)

// maxReply bounds how much of an answer is read. A longer body decides nothing;
// its code does.
const maxReply = 1 << 20

// HTTPConfig says where an HTTP handler posts to.
type HTTPConfig struct {
	URL         string        // http or https; user:password@ is sent as basic authentication
	Timeout     time.Duration // for one exchange; 0 = the job's own time limit alone
	Connections int           // connections kept open when idle; give it the jobs that run at once; default 64
	Client      *http.Client  // default: a client of its own that follows no redirects
}

// HTTP is a handler that posts the envelope as JSON. A JSON answer with a status
// word decides, else the code does: 2xx SUCCESS, 410 DISCARD, 400, 405, 413, 415,
// 422 and 501 FAIL, 429 and 503 with Retry-After DEFER, everything else RETRY. No
// answer is RETRY.
func HTTP(cfg HTTPConfig) core.Handler {
	client := cfg.Client
	if client == nil {
		client = newClient(cfg.Connections)
	}
	return func(ctx context.Context, job *core.Job) error {
		if cfg.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("no answer within %v", cfg.Timeout))
			defer cancel()
		}
		response, body, err := post(ctx, client, cfg.URL, job)
		if err != nil {
			return noAnswer(ctx, err)
		}
		return readAnswer(response, body)
	}
}

func newClient(connections int) *http.Client {
	if connections <= 0 {
		connections = 64
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = connections
	transport.MaxIdleConnsPerHost = connections
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends the envelope and reads the answer. A body that breaks off is no
// answer.
func post(ctx context.Context, client *http.Client, address string, job *core.Job) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(job.As(core.FormatJob).Append(nil)))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Job-Id", printable(job.ID))
	request.Header.Set("X-Job-Type", printable(job.Type))
	request.Header.Set("X-Job-Attempt", strconv.Itoa(job.Attempt))
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := job.Meta.String(name); value != "" {
			request.Header.Set(name, printable(value))
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil {
		return nil, nil, fmt.Errorf("the answer broke off: %w", err)
	}
	return response, body, nil
}

// noAnswer is RETRY. The client's own errors repeat the URL, which may hold a
// secret, so only their cause is kept.
func noAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return core.Retry(context.Cause(ctx))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return core.Retry(fmt.Errorf("no answer: %w", err))
}

func readAnswer(response *http.Response, body []byte) error {
	code := response.StatusCode
	answered := fmt.Sprintf("HTTP %d", code)
	var message string
	if len(body) <= maxReply {
		r, text, ok := parseReply(body)
		if ok {
			return r.result(fmt.Sprintf("answered %s (%s)", r.status, answered))
		}
		message = text
	}
	if message != "" {
		answered += ": " + message
	}
	delay, hasDelay := time.Duration(0), false
	status := statusOfCode(code)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		if delay, hasDelay = retryAfter(response.Header.Get("Retry-After"), time.Now()); hasDelay {
			status = core.StatusDefer
		}
	}
	return result(status, errors.New(answered), delay, hasDelay)
}

func statusOfCode(code int) core.ResultStatus {
	switch code {
	case http.StatusGone:
		return core.StatusDiscard
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return core.StatusFail
	}
	if code >= 200 && code < 300 {
		return core.StatusSuccess
	}
	return core.StatusRetry
}

// retryAfter reads seconds or an HTTP date; a date that has passed is now.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		return milliseconds(float64(seconds) * 1000), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}
