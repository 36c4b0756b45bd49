#!/usr/bin/env bash
# cluster.sh BUILD: run bench-crowd with 50 nodes. The program ends only after
# every lane has connected, carried messages, survived both kinds of rail
# failure, and used the failed rail again. The script checks that the program
# prints its figures, but not their values.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/scratch.sh"
net=${net%.*} # bench-crowd chooses third bytes from 200 on

mkdir "$dir/faults"
MPIB_SOFT_FAULTS=$dir/faults "$build/proxy/mpib-proxy" --config /dev/null \
	--run-dir "$dir/n0" --sout "soft:$net.8.1" --sup "soft:$net.9.1" \
	--mode static --sup-bw 512 >"$dir/out" 2>"$dir/log" &
pids=($!)
await_ready "$dir/out" $!

"$build/bench/bench-crowd" "$dir/n0" "$net" 50 0.5 "$dir/faults/$net.8.1" \
	>"$dir/got" 2>"$dir/err" || {
	cat "$dir/got" "$dir/err" "$dir/log"
	exit 1
}
for m in setup_s ask_s again_s peer_kib lane_kib sender_kib receiver_kib lanes_control \
	conns_control idle_cpu busy_messages busy_cpu down_moving down_fenced \
	down_back hole_moving hole_fenced hole_back; do
	awk -v m="$m" '$1 == m && $2 > 0 { ok = 1 } END { exit !ok }' \
		"$dir/got" && continue
	echo "no $m"
	failed=1
done
# The proxy must count two fail-overs and two failbacks for each of 50 lanes.
for event in failovers failbacks; do
	n=$("$build/proxy/mpibctl" -s "$dir/n0" -j rails |
		grep -o "\"$event\": *[0-9]*" |
		awk -F: '{ n += $2 } END { print n + 0 }')
	echo "$event $n"
	[ "$n" -ge 100 ] || failed=1
done
# If the nodes need more descriptors than the limit allows, the program must
# refuse before it starts a node.
(
	ulimit -n 300
	"$build/bench/bench-crowd" "$dir/n0" "$net" 50 1 "$dir/faults/$net.8.1"
) >"$dir/got" 2>"$dir/err"
[ $? -eq 1 ] && [ ! -s "$dir/got" ] &&
	grep -q 'need 650 descriptors, but the limit is 300' "$dir/err" || {
	cat "$dir/got" "$dir/err"
	failed=1
}
[ "$failed" -eq 0 ] || cat "$dir/got" "$dir/log"
exit "$failed"
