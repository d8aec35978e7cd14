// Package builtin holds the handlers of the stock binary: an HTTP endpoint, a
// command, a log line. All three are plain core.Handlers.
package builtin
