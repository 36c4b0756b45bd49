#!/usr/bin/env bash
# one_lane.sh BUILD: 16 ranks on each of two proxies, 64 connections a proxy,
# share one lane: the QPs are those of a single one, 2 + 4. Interrupted, all
# ranks end at the same message, and mpib-perf reports.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/scratch.sh"

for node in 0 1; do
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n$node" \
		--sout "soft:$net.$((1 + node))" \
		--sup "soft:$net.$((11 + node))" \
		>"$dir/out$node" 2>"$dir/log$node" &
	pids+=($!)
done
for node in 0 1; do
	await_ready "$dir/out$node" "${pids[$node]}"
done

"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/n0,$dir/n1" --ranks-per-node 16 --channels 2 \
	--min 4K --max 4K --steady 600s --timeout 120 >"$dir/perf" 2>&1 &
pids+=($!)

ctl() {
	"$build/proxy/mpibctl" -s "$dir/n0" -j "$1"
}
conns=0
all_connected() {
	conns=$(ctl conns | grep -o '"index"' | wc -l)
	[ "$conns" -ge 64 ] || ! lives "${pids[2]}"
}
await all_connected
"$build/proxy/mpibctl" -s "$dir/n0" rails
"$build/proxy/mpibctl" -s "$dir/n0" lanes
qps=$(ctl rails | grep -o '"qps": *[0-9]*' | grep -o '[0-9]*$' |
	awk '{ n += $1 } END { print n + 0 }')
echo "connections $conns, QPs $qps"
if [ "$conns" -ne 64 ] || [ "$qps" -ne 6 ]; then
	cat "$dir/perf" "$dir/log0"
	exit 1
fi
kill -INT "${pids[2]}"
wait "${pids[2]}" && grep -q '^# wrong : 0$' "$dir/perf" && exit
cat "$dir/perf"
echo "interrupted, mpib-perf does not report"
exit 1
