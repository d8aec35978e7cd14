package core

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type address struct{ City string }

type order struct {
	OrderID int64             `json:"orderId"`
	Address *address          `json:"address"`
	Tags    map[string]string `json:"tags"`
	Lines   []line            `json:"lines"`
	Any     any               `json:"any"`
	Due     time.Time         `json:"due"`
	Small   int8              `json:"small"`
	Hidden  address           `json:"-"`
	line
	Stamp
}

// Stamp is embedded by its exported name.
type Stamp struct {
	By map[string]int `json:"by"`
}

type line struct {
	Options map[string]address `json:"options"`
	Notes   []string           `json:"notes"`
}

// handled runs payload through a typed handler and returns what it got.
func handled[P any](t *testing.T, payload string) (got P, err error) {
	t.Helper()
	r := NewRegistry()
	must(t, Handle(r, "t", func(_ context.Context, p P) error { got = p; return nil }))
	h, _ := viewOf(t, r).Lookup("t")
	return got, h(t.Context(), &Job{Type: "t", Payload: json.RawMessage(payload)})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHandleGivesTheDecodedPayload(t *testing.T) {
	t.Parallel()
	got, err := handled[order](t, `{"orderId":9007199254740993,"address":{"City":"Jena"},"notes":["a"]}`)
	must(t, err)
	if got.OrderID != 9007199254740993 || got.Address.City != "Jena" || got.Notes[0] != "a" {
		t.Errorf("got %+v", got)
	}
}

func TestHandleTakesPHPsEmptyListForAnEmptyObject(t *testing.T) {
	t.Parallel()
	if _, err := handled[order](t, `[]`); err != nil {
		t.Errorf("struct: %v", err)
	}
	if _, err := handled[*order](t, ` [ ] `); err != nil {
		t.Errorf("pointer: %v", err)
	}
	if got, err := handled[map[string]int](t, `[]`); err != nil || got == nil {
		t.Errorf("map: %v, %v", got, err)
	}
	if got, err := handled[[]int](t, `[]`); err != nil || got == nil {
		t.Errorf("a list stays one: %v, %v", got, err)
	}
}

func TestHandleTakesEmptyListsInsideForEmptyObjects(t *testing.T) {
	t.Parallel()
	got, err := handled[order](t, `{"Address":[],"tags":[ ],"any":[],"lines":[{"options":[],"notes":[]},{"options":{"a\u0062":[]}}],"options":[],"notes":[],"Hidden":[],"by":[],"unknown":{"x":[]},"orderId":7}`)
	must(t, err)
	want := order{
		OrderID: 7, Address: &address{}, Tags: map[string]string{}, Any: []any{},
		Lines: []line{{Options: map[string]address{}, Notes: []string{}}, {Options: map[string]address{"ab": {}}}},
		line:  line{Options: map[string]address{}, Notes: []string{}},
		Stamp: Stamp{By: map[string]int{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestHandleFailsAPayloadThatDoesNotFitWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	for payload, mention := range map[string]string{
		`{"orderId":"secret"}`:               `"orderId"`,
		`{"address":{"City":[1234321]}}`:     `"address.City"`,
		`{"address":[1234321]}`:              `"address"`,
		`{"tags":[],"orderId":{"a":[]}}`:     `"orderId"`,
		`{"small":1234321}`:                  `"small"`,
		`{"due":"secret"}`:                   "core.order",
		`["secret"]`:                         "array",
		`{"lines":[{"notes":[]},"secret"]}`:  `"lines"`,
		`{"address":[],"orderId":"secret"}`:  `"orderId"`,
		`{"orderId":1,"tags":{"a":1234321}}`: `"tags"`,
	} {
		_, err := handled[order](t, payload)
		if ResultOf(err).Status != StatusFail {
			t.Errorf("%s: %v is no FAIL", payload, err)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, mention) || strings.Contains(text, "secret") || strings.Contains(text, "1234321") {
			t.Errorf("%s: %q", payload, text)
		}
	}
}
