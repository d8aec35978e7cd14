module github.com/goconsumer/consumer

go 1.26.0
