// Command worker is consumer with one Go handler that does what a job's payload
// says and writes a line for each run to the ledger, the file of $LEDGER.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/goconsumer/consumer/cmd/consumer/cli"
	"github.com/goconsumer/consumer/core"
)

func main() {
	registry := core.NewRegistry()
	if err := registry.Handle("play.*", play); err != nil {
		panic(err)
	}
	cli.Main(cli.Options{Name: "worker", Registry: registry})
}

// script is the part of a payload that play reads.
type script struct {
	Do []string `json:"do"` // one word an attempt, the last one for all further attempts; none = SUCCESS
	MS int      `json:"ms"` // how long a run takes
	MB int      `json:"mb"` // how much memory HOARD takes, all at once; 0 = bit by bit until the end
}

// run is one line of the ledger.
type run struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	Start   int64  `json:"start"` // unix ms
	Result  string `json:"result"`
	PID     int    `json:"pid"`
	Payload []byte `json:"payload"`
}

func play(ctx context.Context, job *core.Job) error {
	var s script
	if err := json.Unmarshal(job.Payload, &s); err != nil {
		s = script{} // a list: SUCCESS
	}
	word := "SUCCESS"
	if len(s.Do) > 0 {
		word = s.Do[min(job.Attempt, len(s.Do))-1]
	}
	start := time.Now().UnixMilli()
	if word == "HANG" {
		record(job, start, "HANG")
		select {} // ignores its context
	}
	select {
	case <-time.After(time.Duration(s.MS) * time.Millisecond):
	case <-ctx.Done():
		record(job, start, "CANCELLED")
		return ctx.Err()
	}
	record(job, start, word)
	switch word {
	case "KILL":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "PRINT":
		fmt.Println("a line of job", job.ID)
	case "HOARD":
		hoard(s.MB)
	case "PANIC":
		panic("a panic that the script asked for")
	case "RETRY":
		return core.Retry(errors.New("the script says RETRY"))
	case "FAIL":
		return core.Fail(errors.New("the script says FAIL"))
	case "DISCARD":
		return core.Discard(nil)
	}
	return nil
}

// hoard takes memory and uses it, until it has mb or something ends this process.
func hoard(mb int) {
	var kept [][]byte
	take := func(size int) {
		block := make([]byte, size)
		for i := 0; i < size; i += 1 << 12 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
	if mb > 0 {
		take(mb << 20)
	} else {
		for {
			take(1 << 20)
			<-time.After(time.Millisecond)
		}
	}
	fmt.Println("kept", len(kept))
}

// record appends one line with one write, so that lines of killed and of
// concurrent workers never mix.
func record(job *core.Job, start int64, result string) {
	line, err := json.Marshal(run{job.ID, job.Attempt, start, result, os.Getpid(), job.Payload})
	if err == nil {
		err = appendLine(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker: write the ledger:", err)
		os.Exit(3)
	}
}

func appendLine(line []byte) error {
	f, err := os.OpenFile(os.Getenv("LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}
