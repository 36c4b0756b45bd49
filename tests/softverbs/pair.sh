#!/usr/bin/env bash
# pair.sh LIBRARY PROGRAM [options...]
#
# Run PROGRAM, a verbs program that knows nothing of mpib, twice: as a server on
# device soft0, and as a client on device soft1. LIBRARY is preloaded. Both must
# exit with 0 in time, print no failure, and print a result.
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

# Both programs use the port for their own handshake. Return 1 if the server
# does not listen, for example because another program took the port.
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

# Before each line of its report, perftest compares two clocks. If another
# process runs on the core during the comparison, perftest ends with "Can't
# produce a report". That says nothing about the HCA, so repeat the run.
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
