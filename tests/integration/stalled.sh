#!/usr/bin/env bash
# stalled.sh BUILD: check a proxy whose log goes to a program that has stopped
# reading. The proxy must still start, answer mpibctl, serve ranks, move their
# messages, and stop on a signal.
set -uo pipefail
build=$(realpath "$1")
. "$(dirname "$0")/../support/nodes.sh"

# Fill the pipe and keep it open, so that a write to the pipe blocks.
mkfifo "$dir/log0"
exec 3<>"$dir/log0"
dd if=/dev/zero of="$dir/log0" bs=4096 count=1000 oflag=nonblock 2>/dev/null

node 0 --log-level debug
node 1
for n in 0 1; do
	await_ready "$dir/out$n" "${pids[$n]}" && continue
	fail "node $n is not ready"
	exit 1
done
timeout 60 "$build/proxy/mpibctl" -s "$dir/n0" ping >"$dir/ping" 2>&1 ||
	fail "mpibctl ping: $(cat "$dir/ping")"
timeout 120 "$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/n0,$dir/n1" --min 64K --max 64K --iters 10 >"$dir/perf" 2>&1 ||
	fail "a rank cannot attach: $(cat "$dir/perf")"
kill -TERM "${pids[0]}"
ended() {
	! lives "${pids[0]}"
}
await ended || fail "the proxy does not end"
exit "$failed"
