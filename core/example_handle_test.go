package core_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/goconsumer/consumer/core"
)

// OrderPaid is the payload of order.paid.
type OrderPaid struct {
	OrderID int64             `json:"orderId"`
	Labels  map[string]string `json:"labels"`
}

// A typed handler gets its payload decoded. PHP writes an empty object as [],
// which fits a struct or a map all the same.
func ExampleHandle() {
	registry := core.NewRegistry()
	err := core.Handle(registry, "order.paid", func(ctx context.Context, p OrderPaid) error {
		fmt.Println("order", p.OrderID, "labels", len(p.Labels))
		return nil
	})
	if err != nil {
		panic(err)
	}
	run(registry, `{"orderId":10001,"labels":[]}`)
	run(registry, `[]`)
	run(registry, `{"orderId":"ten thousand"}`)
	// Output:
	// order 10001 labels 0
	// result: <nil>
	// order 0 labels 0
	// result: <nil>
	// result: payload field "orderId" is of JSON type string, which does not fit int64
}

// run hands one job to the registry's handler, as an engine does.
func run(registry *core.Registry, payload string) {
	view, err := registry.View(nil)
	if err != nil {
		panic(err)
	}
	handler, _ := view.Lookup("order.paid")
	job := &core.Job{Type: "order.paid", Payload: json.RawMessage(payload)}
	fmt.Println("result:", handler(context.Background(), job))
}
