#!/usr/bin/env bash
# one_lane.sh BUILD: run two proxies with 16 ranks and 64 connections each. All
# connections share one lane with 1 + 1 QPs. When mpib-perf is interrupted, all
# ranks must end after the same message, and mpib-perf must print its report.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"

pair_start
job perf "0 1" --ranks-per-node 16 --channels 2 --min 4K --max 4K \
	--steady 600s --timeout 120
conns=0
all_connected() {
	conns=$(ctl -j conns | grep -o '"index"' | wc -l)
	[ "$conns" -ge 64 ] || ! lives "${pids[perf]}"
}
await all_connected
ctl rails
ctl lanes
qps=$(ctl -j rails | grep -o '"qps": *[0-9]*' | grep -o '[0-9]*$' |
	awk '{ n += $1 } END { print n + 0 }')
echo "connections $conns, QPs $qps"
if [ "$conns" -ne 64 ] || [ "$qps" -ne 2 ]; then
	cat "$dir/perf" "$dir/log0"
	exit 1
fi
kill -INT "${pids[perf]}"
wait "${pids[perf]}" && grep -q '^# wrong : 0$' "$dir/perf" && exit
cat "$dir/perf"
echo "after an interruption, mpib-perf prints no report"
exit 1
