#!/usr/bin/env bash
# Provides the servers that tests need and prints a directory to put in front of
# PATH. Progress goes to stderr.
#
#   scripts/brokers.sh redis | php
#
# redis: the redis-server of PATH; else Debian's package when root; else the
# binary of the public image when docker works; else one sentence and exit 1.
# php: the php of PATH with its redis extension; else Debian's packages when root;
# else one sentence and exit 1.
set -euo pipefail
cd "$(dirname "$0")/.."

image=redis:7-bookworm

say() { echo "brokers: $*" >&2; }

is_redis() { "$1" --version 2>/dev/null | grep -q '^Redis server v=\(7\|8\|9\)'; }

from_path() {
	local found
	found=$(command -v redis-server) && is_redis "$found" && dirname "$found"
}

from_build() { is_redis .build/bin/redis-server && echo "$PWD/.build/bin"; }

from_apt() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	say "installing redis-server with apt-get"
	{
		apt-get update -qq
		# The package must not start a service on the standard port.
		RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server
	} >&2 || return 1
	from_path
}

has_php() { command -v php >/dev/null && php -r 'exit(extension_loaded("redis") ? 0 : 1);'; }

php_from_apt() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	say "installing php-cli and php-redis with apt-get"
	{
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends php-cli php-redis
	} >&2 || return 1
	has_php
}

php_directory() {
	has_php || php_from_apt || {
		say "no php with its redis extension (Debian: apt-get install php-cli php-redis): the tests beside PHP are skipped"
		return 1
	}
	dirname "$(command -v php)"
}

from_docker() {
	command -v docker >/dev/null && docker info >/dev/null 2>&1 || return 1
	say "taking redis-server out of the image $image"
	local id
	id=$(docker create "$image") || return 1
	mkdir -p .build/bin
	docker cp "$id:/usr/local/bin/redis-server" .build/bin/redis-server >&2 || { docker rm "$id" >/dev/null; return 1; }
	docker rm "$id" >/dev/null
	from_build
}

redis() {
	from_path || from_build || from_apt || from_docker || {
		say "no Redis 7 or newer: install redis-server (Debian: apt-get install redis-server, macOS: brew install redis) or start docker, then run this again"
		return 1
	}
}

case "${1:-}" in
redis) redis ;;
php) php_directory ;;
*)
	say "usage: scripts/brokers.sh redis|php"
	exit 2
	;;
esac
