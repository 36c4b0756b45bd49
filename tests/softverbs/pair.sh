#!/usr/bin/env bash
# pair.sh LIBRARY PROGRAM [options...]
#
# A verbs program that knows nothing of mpib, as server on device soft0 and as
# client on soft1, with the library preloaded: both must end well, in time, and
# without a word of failure, and print a result.
set -uo pipefail
lib=$1 program=$2
shift 2
. "$(dirname "$0")/../support/scratch.sh"
. "$(dirname "$0")/common.sh"
case $program in
ibv_*) need "$program" ibverbs-utils ;;
*) need "$program" perftest ;;
esac
case $program in
ibv_*) result='^[0-9]+ iters in ' ;;
*) result='^ *[0-9]+ +[0-9]+ +[0-9.]*[1-9]' ;;
esac

server=

run() {
	LD_PRELOAD=$preload timeout 60 "$program" "$@"
}

# The port is for the programs' own handshake. Another may take it before the
# server does: then try the next.
start_server() {
	run -d soft0 -p "$port" "$@" >"$dir/server" 2>&1 &
	server=$!
	for _ in $(seq 2400); do
		listens "$port" && kill -0 "$server" 2>/dev/null && return 0
		kill -0 "$server" 2>/dev/null || break
		sleep 0.025
	done
	kill "$server" 2>/dev/null
	wait "$server"
	return 1
}

port=$((20000 + $$ % 10000))
run_pair() {
	for _ in 1 2 3 4 5; do
		while listens "$port"; do
			port=$((port + 1))
		done
		start_server "$@" && break
		port=$((port + 7))
		server=
	done
	if [ -z "$server" ]; then
		cat "$dir/server"
		echo "the server does not listen"
		exit 1
	fi
	run -d soft1 -p "$port" "$@" "$net.1" >"$dir/client" 2>&1
	client_rc=$?
	wait "$server"
	server_rc=$?
	server=
}

# Before each line perftest compares two clocks, and ends, in these words, where
# another process had the core amid that: it has not judged the HCA then.
for _ in 1 2 3 4 5 6 7 8; do
	run_pair "$@"
	grep -qs "^Can't produce a report" "$dir/client" "$dir/server" || break
done

echo "-- client, ended with $client_rc"
cat "$dir/client"
echo "-- server, ended with $server_rc"
cat "$dir/server"
[ "$client_rc" -eq 0 ] && [ "$server_rc" -eq 0 ] || exit 1
grep -hiE "fail|could ?n.t|unable|mpib: |invalid data|sanitizer|runtime err" \
	"$dir/client" "$dir/server" && exit 1
grep -qE "$result" "$dir/client"
