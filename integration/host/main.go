// Command host is a larger program that has a worker inside: it runs the command
// line of its arguments, prints "worker ended: CODE" and goes on until a signal
// ends it. A line on stdin ends the worker.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/goconsumer/consumer/cmd/consumer/cli"
	"github.com/goconsumer/consumer/core"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		stop()
	}()
	code := cli.Execute(ctx, cli.Options{Name: "host", Registry: core.NewRegistry()}, cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(),
	})
	fmt.Println("worker ended:", code)
	select {}
}
