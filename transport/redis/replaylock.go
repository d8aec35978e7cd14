package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/deadletter"
)

var _ deadletter.Excluder = (*DeadLetters)(nil)

// replayLease is how long a replay that vanished keeps others out.
const replayLease = 4 * time.Second

// A replay's lock is a key beside the list that holds its token and expires.
var (
	keepReplay = goredis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	endReplay  = goredis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`)
)

// Exclude takes the list's replay lock. It waits a little longer than a replay
// that was killed keeps it.
func (l *DeadLetters) Exclude(ctx context.Context) (context.Context, func(), error) {
	key, token := l.keys.dead+":replay", randomToken()
	var err error
	for until := time.Now().Add(replayLease + time.Second); ; {
		var taken bool
		taken, err = l.driver.client.SetNX(ctx, key, token, replayLease).Result()
		if taken || err != nil {
			break
		}
		if time.Now().After(until) {
			return nil, nil, fmt.Errorf("another replay of %s is running: wait for its end and replay what is left", l.keys.dead)
		}
		select {
		case <-time.After(replayLease / 20):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, nil, l.driver.failure("take the replay lock of "+l.keys.dead, err)
	}
	held, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(held, cancel, key, token)
	}()
	return held, func() {
		cancel()
		<-ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
		defer cancel()
		// A failure does not matter: the lock expires.
		_ = endReplay.Run(ctx, l.driver.client, []string{key}, token).Err()
	}, nil
}

// keep renews the lock until ctx ends, and ends it when another replay has it.
func (l *DeadLetters) keep(ctx context.Context, lost context.CancelFunc, key, token string) {
	ticker := time.NewTicker(replayLease / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := keepReplay.Run(ctx, l.driver.client, []string{key}, token, replayLease.Milliseconds()).Err()
		if err == goredis.Nil { // false
			lost()
			return
		}
	}
}
