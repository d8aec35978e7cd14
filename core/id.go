package core

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// NewID makes a fresh id: job_ + UTC YYYYMMDDhhmmss + _ + 12 hex.
func NewID() string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	id := make([]byte, 0, len("job_20060102150405_0123456789ab"))
	id = append(id, "job_"...)
	id = time.Now().UTC().AppendFormat(id, "20060102150405_")
	return string(hex.AppendEncode(id, random[:]))
}

// DeriveID gives the id of a job that came without one: the same at every
// delivery of the same bytes from the same queue, and so the same for two bodies
// without an id that are equal byte for byte.
func DeriveID(queue string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(queue))
	h.Write([]byte{0})
	h.Write(body)
	return "job_" + hex.EncodeToString(h.Sum(nil)[:12])
}
