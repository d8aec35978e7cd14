package core_test

import (
	"context"
	"fmt"

	"github.com/goconsumer/consumer/core"
)

// An exact type beats a pattern, and more text before the first * beats less. A
// process sees only the types that it is configured for.
func ExampleRegistry() {
	registry := core.NewRegistry()
	handler := func(context.Context, *core.Job) error { return nil }
	for _, pattern := range []string{"order.*", "order.paid.*", "order.paid.notify", "mail.*"} {
		if err := registry.Handle(pattern, handler); err != nil {
			panic(err)
		}
	}
	fmt.Println(registry.Handle("order.*.notify", handler))

	view, err := registry.View([]string{"order.*"})
	if err != nil {
		panic(err)
	}
	for _, jobType := range []string{"order.paid.notify", "order.paid.refund", "order.shipped", "mail.sent"} {
		found, pattern := view.Lookup(jobType)
		fmt.Printf("%s: %v %s\n", jobType, found != nil, pattern)
	}
	// Output:
	// register handler for "order.*.notify": "order.*" and "order.*.notify" tie: some job types match both and neither has more text before its first *; make one of them longer there
	// order.paid.notify: true order.paid.notify
	// order.paid.refund: true order.paid.*
	// order.shipped: true order.*
	// mail.sent: false
}
