package mask_test

import (
	"testing"

	"github.com/goconsumer/consumer/internal/mask"
)

func TestURLHidesPasswordsAndLeavesHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://127.0.0.1:6379/0":                                     "redis://127.0.0.1:6379/0",
		"redis://:hush@127.0.0.1:6379/0":                               "redis://:***@127.0.0.1:6379/0",
		"amqp://user:hush@h1:5672,h2:5672/v":                           "amqp://user:***@h1:5672,h2:5672/v",
		"redis+sentinel://:hu%40sh@h1,h2/?master=m":                    "redis+sentinel://:***@h1,h2/?master=m",
		`parse "redis://:hu sh@h": invalid userinfo`:                   `parse "redis://:hu sh@h": invalid userinfo`,
		"kafka://u:a@b/c@h:9092":                                       "kafka://u:***@h:9092",
		"kafka://h:9092?sasl=plain&password=hush&x=1":                  "kafka://h:9092?sasl=plain&password=***&x=1",
		"dial redis://:hush@h:1 failed, then redis://:hush@h:2 failed": "dial redis://:***@h:1 failed, then redis://:***@h:2 failed",
		"at 10:30 user@host said no":                                   "at 10:30 user@host said no",
	} {
		if got := mask.URL(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
