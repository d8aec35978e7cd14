package deadletter

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/goconsumer/consumer/core"
)

// AppendLine writes an entry as one line of NDJSON, without its end, after dst and
// returns the longer slice. A stored record is written as it is, but for line
// breaks between its values. What is no record becomes the raw input of one.
func AppendLine(dst []byte, e *Entry) []byte {
	if isObject(e.Stored) {
		return append(dst, OneLine(e.Stored)...)
	}
	return Append(dst, &core.DeadRecord{
		Raw: e.Stored, Error: "the entry is not a dead-letter record", At: time.Unix(0, 0), Reason: core.ReasonMalformed,
	})
}

// isObject says whether text is a JSON object.
func isObject(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Valid(text)
}

// OneLine returns a JSON text without line breaks: in JSON they only ever stand
// between values, whose bytes stay. A text without any is returned as it is.
func OneLine(text []byte) []byte {
	if !bytes.ContainsAny(text, "\r\n") {
		return text
	}
	var line bytes.Buffer
	if json.Compact(&line, text) != nil { // nested too deeply for it
		return bytes.Map(func(r rune) rune {
			if r == '\r' || r == '\n' {
				return ' '
			}
			return r
		}, text)
	}
	return line.Bytes()
}
