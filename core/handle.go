package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Handle registers a typed handler: the payload is unmarshalled into P. PHP
// writes an empty object as [], so an empty list decodes as an empty object
// wherever P has a struct or a map, at the top and inside. A payload that does
// not fit P fails the job (FAIL: no retry mends it).
func Handle[P any](r *Registry, pattern string, h func(ctx context.Context, payload P) error, mw ...Middleware) error {
	if h == nil {
		return r.Handle(pattern, nil, mw...)
	}
	return r.Handle(pattern, func(ctx context.Context, job *Job) error {
		var payload P
		if err := unmarshalPayload(job.Payload, &payload); err != nil {
			return Fail(err)
		}
		return h(ctx, payload)
	}, mw...)
}

func unmarshalPayload[P any](raw []byte, payload *P) error {
	err := json.Unmarshal(raw, payload)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Value == "array" {
		if fixed, changed := emptyListsToObjects(raw, reflect.TypeFor[P]()); changed {
			var fresh P
			*payload = fresh
			err = json.Unmarshal(fixed, payload)
		}
	}
	if err != nil {
		return describeMismatch(err, reflect.TypeFor[P]())
	}
	return nil
}

// describeMismatch says which field does not fit, and never with what value:
// encoding/json's own texts, and those of custom unmarshallers, quote it.
func describeMismatch(err error, into reflect.Type) error {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return fmt.Errorf("payload does not fit %v (%T)", into, err)
	}
	kind, _, _ := strings.Cut(mismatch.Value, " ") // "number 300" quotes the value
	if mismatch.Field == "" {
		return fmt.Errorf("payload is of JSON type %s, which does not fit %v", kind, mismatch.Type)
	}
	return fmt.Errorf("payload field %q is of JSON type %s, which does not fit %v", mismatch.Field, kind, mismatch.Type)
}
