package cli_test

import (
	"context"

	"github.com/goconsumer/consumer/cmd/consumer/cli"
	"github.com/goconsumer/consumer/core"
)

// A program with Go handlers is a registry and a call of Main: it has every verb
// of the stock binary.
func Example() {
	type OrderPaid struct {
		OrderID int64 `json:"orderId"`
	}
	notify := func(ctx context.Context, order OrderPaid) error {
		// nil is success, an error is another attempt; core.Fail, core.Discard and
		// core.DeferAfter say something else.
		return nil
	}
	main := func() {
		reg := core.NewRegistry()
		if err := core.Handle(reg, "order.paid.notify", notify); err != nil {
			panic(err)
		}
		cli.Main(cli.Options{Registry: reg})
	}
	_ = main // it ends the program
}
