package core_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/goconsumer/consumer/core"
)

// What a handler returns says what becomes of its job. Results may be wrapped.
func ExampleResultOf() {
	cause := errors.New("gateway closed")
	for _, returned := range []error{
		nil,
		cause,
		core.RetryAfter(30*time.Second, cause),
		core.Fail(cause),
		core.Discard(nil),
		fmt.Errorf("charge card: %w", core.DeferAfter(time.Minute, cause)),
	} {
		result := core.ResultOf(returned)
		fmt.Print(result.Status)
		if result.HasDelay {
			fmt.Print(" after ", result.Delay)
		}
		if result.Err != nil {
			fmt.Print(": ", result.Err)
		}
		fmt.Println()
	}
	// Output:
	// SUCCESS
	// RETRY: gateway closed
	// RETRY after 30s: gateway closed
	// FAIL: gateway closed
	// DISCARD
	// DEFER after 1m0s: charge card: gateway closed
}
