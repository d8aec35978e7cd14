package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// probe reads what a measurement costs: own CPU by getrusage, the broker's CPU and
// its commands (those inside scripts too) by INFO. What the probe itself sends is
// not counted.
type probe struct {
	rdb  *redis.Client
	sent int64 // commands the probe sent
}

// reading is the state at one moment.
type reading struct {
	at        time.Time
	ownCPU    time.Duration
	brokerCPU time.Duration
	commands  int64
}

func newProbe(ctx context.Context, addr string) (*probe, error) {
	rdb := dial(addr)
	return &probe{rdb: rdb}, rdb.Ping(ctx).Err()
}

func (p *probe) read(ctx context.Context) (reading, error) {
	r := reading{at: time.Now(), ownCPU: ownCPU()}
	info, err := p.rdb.InfoMap(ctx, "commandstats", "cpu").Result()
	if err != nil {
		return r, err
	}
	for _, stat := range info["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return r, fmt.Errorf("read commandstats: %w", err)
		}
		r.commands += n
	}
	r.commands -= p.sent
	p.sent++
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			return r, fmt.Errorf("read %s: %w", name, err)
		}
		r.brokerCPU += time.Duration(seconds * float64(time.Second))
	}
	return r, nil
}

// held counts the jobs that the broker still holds, waiting or unacknowledged.
func (p *probe) held(ctx context.Context) (int64, error) {
	lists, err := p.rdb.Keys(ctx, "dq:processing:*").Result()
	if err != nil {
		return 0, err
	}
	lists = append(lists, readyKey)
	p.sent += 1 + int64(len(lists))
	pipe := p.rdb.Pipeline()
	lengths := make([]*redis.IntCmd, len(lists))
	for i, key := range lists {
		lengths[i] = pipe.LLen(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, err
	}
	var n int64
	for _, length := range lengths {
		n += length.Val()
	}
	return n, nil
}

// awaitEmpty polls until the broker holds no job.
func (p *probe) awaitEmpty(ctx context.Context) error {
	const interval = 500 * time.Microsecond
	for {
		n, err := p.held(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d jobs are still at the broker: %w", n, ctx.Err())
		case <-time.After(interval):
		}
	}
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // the arguments are constant
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakRSS is the process's largest resident size in MiB; 0 where the system has
// no /proc.
func peakRSS() float64 {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	return 0
}
