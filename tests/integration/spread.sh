#!/usr/bin/env bash
# spread.sh BUILD: run proxies that spread lanes in the same way or in different
# ways. If two proxies have the same mode, messages must move, and mpibctl must
# show the mode of lanes and connections. If the modes differ, no lane is made,
# and the error message must name the modes of both ends.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/scratch.sh"

# proxy NAME HOST MODE
proxy() {
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/$1" --sout "soft:$net.$2" \
		--sup "soft:$net.1$2" --lane-spread "$3" --lane-frag 4096 \
		>"$dir/$1.out" 2>"$dir/$1.log" &
	pids+=($!)
	await_ready "$dir/$1.out" $! && return
	cat "$dir/$1.log"
	fail "$1 is not ready"
	exit 1
}
ask() {
	"$build/proxy/mpibctl" -s "$dir/$1" "$2" -o spread.mode \
		>"$dir/says" 2>/dev/null
	[ -s "$dir/says" ]
}
# says NODE VIEW MODE: wait until messages have moved, and check that the view
# VIEW of mpibctl shows the mode.
says() {
	await ask "$1" "$2"
	[ "$(sort -u "$dir/says")" = "$3" ] ||
		fail "$1 $2: $(cat "$dir/says"), not $3"
}

proxy split 1 split
proxy spray 2 spray
proxy spray2 3 spray
proxy dqplb 4 dqplb

# Do not run the program in a subshell, so that kill ends the program itself.
# Use a separate output file, to which the program may still write at the end.
"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/spray,$dir/spray2" --min 64K --max 64K --timeout 60 \
	--pattern stream --steady 60s >"$dir/steady" 2>&1 &
pids+=($!)
says spray why spray
says spray lanes spray
says spray2 lanes spray
kill -9 "${pids[-1]}"
wait "${pids[-1]}" 2>/dev/null

for pair in "split spray" "spray dqplb"; do
	read -r one other <<<"$pair"
	timeout 60 "$build/bench/mpib-perf" \
		--plugin "$build/plugin/libnccl-net-mpib.so" \
		--nodes "$dir/$one,$dir/$other" --min 1K --max 1K --timeout 20 \
		>"$dir/perf" 2>&1 && fail "$pair made a lane"
	grep -q "it spreads lanes by .*$one\|it spreads lanes by .*$other" \
		"$dir/perf" && grep -q "$one" <(grep spreads "$dir/perf") &&
		grep -q "$other" <(grep spreads "$dir/perf") || {
		cat "$dir/perf"
		fail "$pair: the message does not have the views of both ends"
	}
done
exit "$failed"
