package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// orderPaid is the payload of every job.
type orderPaid struct {
	OrderID  int    `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	// At is when the job was published or is due, in unix nanoseconds, where
	// that is measured.
	At int64 `json:"at,omitempty"`
}

const (
	jobType = "order.paid.notify"
	queue   = "bench"
)

// envelope is the wire form for those who write and read it by hand.
type envelope struct {
	V           int       `json:"v"`
	ID          string    `json:"jobId"`
	Type        string    `json:"jobType"`
	Payload     orderPaid `json:"payload"`
	Meta        meta      `json:"meta"`
	Attempt     int       `json:"attempt"`
	MaxAttempts int       `json:"maxAttempts"`
	CreatedAt   int64     `json:"createdAt"`
}

type meta struct {
	TenantID       string `json:"tenantId"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// encodeJob makes the envelope of job n, about 250 bytes.
func encodeJob(n int, at int64) []byte {
	body, err := json.Marshal(envelope{
		V: 1, ID: fmt.Sprintf("job_20260712153000_%012x", n), Type: jobType,
		Payload: orderPaid{OrderID: n, Amount: "19.90", Currency: "EUR", At: at},
		Meta:    meta{TenantID: "t1", IdempotencyKey: fmt.Sprintf("order:%d:paid", n)},
		Attempt: 1, MaxAttempts: 5, CreatedAt: time.Now().Unix(),
	})
	if err != nil {
		panic(err) // the type has nothing that JSON lacks
	}
	return body
}
