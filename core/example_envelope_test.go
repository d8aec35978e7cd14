package core_test

import (
	"fmt"

	"github.com/goconsumer/consumer/core"
)

// A job that is changed and written again keeps everything else byte for byte:
// big numbers, {} and [], members of meta, fields that nobody here knows.
func ExampleDecode() {
	job, err := core.Decode([]byte(`{"jobId":"a","jobType":"order.paid","payload":{"id":9007199254740993,"o":{},"l":[]},"meta":{"tenantId":"t1"},"attempt":"2","createdAt":1720764000,"__id":"x"}`))
	if err != nil {
		panic(err)
	}
	job.Attempt++
	job.Meta.SetLastError("gateway closed")
	fmt.Println(string(job.Append(nil)))

	_, err = core.Decode([]byte(`{"jobId":"a",}`))
	fmt.Println(err)
	// Output:
	// {"v":1,"jobId":"a","jobType":"order.paid","payload":{"id":9007199254740993,"o":{},"l":[]},"meta":{"tenantId":"t1","lastError":"gateway closed"},"attempt":3,"createdAt":1720764000,"__id":"x"}
	// not JSON at byte 13
}

// The waits of the default policy, without the jitter that it adds.
func ExampleRetryPolicy_Delay() {
	policy := core.DefaultRetryPolicy()
	for attempt := 1; attempt < policy.MaxAttempts; attempt++ {
		fmt.Print(policy.Delay(attempt, nil, 0), " ")
	}
	fmt.Println()
	// Output: 1s 2s 4s 8s
}
