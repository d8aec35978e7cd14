# consumer: what a developer and CI run. `make` alone prints this list.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO     ?= go
BIN    := bin/consumer
BUILD  := .build
# The one place where the linter's version is written.
LINT   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# Fewer packages at once than CPUs: several of them start servers and measure time.
GOTEST := $(GO) test -timeout 14m

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the stock binary as bin/consumer
	$(GO) build -o $(BIN) ./cmd/consumer

.PHONY: brokers
brokers: ## find or install what the tests need (a real Redis; PHP where it can be had)
	@scripts/brokers.sh redis
	@scripts/brokers.sh php || true

.PHONY: test
test: ## every test with the race detector, on a real Redis that this target provides
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" CONSUMER_REQUIRE_BROKERS=redis && \
	if scripts/brokers.sh php >/dev/null; then CONSUMER_REQUIRE_BROKERS=redis,php; fi && \
	$(GOTEST) -race ./... && \
	$(GOTEST) -race -tags faults ./internal/fault && \
	cd integration/bench && $(GOTEST) ./...

.PHONY: faults
faults: ## kill the program once at each named step between receive and settled
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" CONSUMER_REQUIRE_BROKERS=redis && \
	$(GOTEST) -race -tags faults ./internal/fault && $(GOTEST) -count=1 -run TestKilledOnce -v ./integration

.PHONY: acceptance
acceptance: ## the black-box suites at full size (30 kills, 20,000 jobs, 10,000 due times)
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" CONSUMER_REQUIRE_BROKERS=redis && \
	CONSUMER_ACCEPTANCE=full $(GO) test -timeout 60m -count=1 -v -p 1 ./integration/...

.PHONY: mutants
mutants: ## plant every known bug in turn; each must be caught by the test that is named beside it
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" CONSUMER_REQUIRE_BROKERS=redis && \
	$(GO) run ./internal/mutants

.PHONY: bench
bench: ## this project beside the raw client loops, as a table; ARGS='-h' lists its options
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" && cd integration/bench && $(GO) run . $(ARGS)

.PHONY: bench-smoke
bench-smoke: ## the same once and small, to see that it works; its numbers mean nothing
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" && cd integration/bench && \
	$(GO) vet ./... && $(GO) test ./... && $(GO) run . -reps 1 -scale 0.01

.PHONY: bench-once
bench-once: ## every Go benchmark for one iteration, so that none rots
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted, run gofmt -w on:" $$out; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags faults ./...
	@scripts/lint.sh $(LINT)

.PHONY: demo
demo: ## jobs of every outcome on an embedded broker, nothing to install
	$(GO) run ./cmd/consumer demo

.PHONY: cover
cover: ## test coverage as coverage.html
	@dir=$$(scripts/brokers.sh redis) && export PATH="$$dir:$$PATH" CONSUMER_REQUIRE_BROKERS=redis && \
	$(GOTEST) -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -html=coverage.out -o coverage.html
	@$(GO) tool cover -func=coverage.out | tail -1

.PHONY: clean
clean: ## remove what the targets above made
	rm -rf bin $(BUILD) coverage.out coverage.html
