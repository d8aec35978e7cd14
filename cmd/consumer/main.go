// Command consumer is the stock binary: background jobs without writing Go. Its
// handlers are the HTTP endpoints and commands of the config.
package main

import "github.com/goconsumer/consumer/cmd/consumer/cli"

func main() { cli.Main(cli.Options{}) }
