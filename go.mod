module github.com/goconsumer/consumer

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
)
