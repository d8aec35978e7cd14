#!/usr/bin/env bash
# Runs golangci-lint in the version given as a module path (module@version). The
# first run builds it with this machine's Go, which takes some minutes; it is kept
# in .build/bin afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

module=${1:?usage: scripts/lint.sh module@version}
version=${module##*@v}
lint=.build/bin/golangci-lint-$version

if ! [ -x "$lint" ]; then
	found=$(command -v golangci-lint || true)
	if [ -n "$found" ] && "$found" version 2>/dev/null | grep -qF "version $version "; then
		lint=$found
	else
		echo "lint: building golangci-lint $version" >&2
		mkdir -p .build/bin
		GOBIN=$PWD/.build/bin GOFLAGS= go install "$module" || {
			echo "lint: golangci-lint $version could not be fetched and built: check that the Go module proxy (go env GOPROXY) can be reached, then run this again" >&2
			exit 1
		}
		mv .build/bin/golangci-lint "$lint"
	fi
fi
"$lint" run ./...
"$lint" run --build-tags faults ./...
