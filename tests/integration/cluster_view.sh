#!/usr/bin/env bash
# cluster_view.sh BUILD: a node with three peers asks how they are. One has another
# setting, one stands still: both are named, the others well.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
# The field $2 of the node $1, as node 0 is told it.
of() {
	ctl cluster -o "peer,$2" |
		awk -F '\t' -v p="$net.$((1 + $1)):" 'index($1, p) == 1 { print $2 }'
}
status() { # WANTED ARGUMENTS...
	local want=$1
	shift
	"$build/proxy/mpibctl" "$@" >"$dir/out" 2>"$dir/err"
	local rc=$?
	[ "$rc" -eq "$want" ] && return
	cat "$dir/out" "$dir/err"
	fail "mpibctl $*: $rc, not $want"
}

for node in 0 1 2 3; do
	own=()
	[ "$node" -eq 1 ] && own=(--failover-hold-down 777)
	node "$node" --metrics-listen "127.0.0.1:0" "${own[@]}"
done
nodes_ready 0 1 2 3
# A node without peers is one alone, and well.
status 0 -s "$dir/n0" cluster
has '^1 well, 0 not' <"$dir/out" || fail "alone: $(cat "$dir/out")"

for node in 1 2 3; do
	job "perf$node" "0 $node" --pattern sendrecv --min 1M --max 1M \
		--steady 250s --timeout 290
done
moves() {
	[ "$(ctl peers -o rx_bytes.sout | awk '$1 > 4e6' | wc -l)" -eq 3 ]
}
await moves || fail "no bytes move"
answer() { # all three
	[ "$(ctl cluster -o state | grep -c answered)" -eq 4 ]
}
await answer || fail "not all answer"

# A node that differs is named with the setting, and no other node is.
[ "$(of 1 differs)" = '["failover.hold_down"]' ] || fail "differs: $(of 1 differs)"
[ "$(of 2 differs)" = '[]' ] || fail "differs: $(of 2 differs)"
# Beside load there may be one for a moment whose requests are late.
others_are_well() {
	[ "$(ctl cluster --quiet -o peer | wc -l)" -eq 1 ] &&
		has '^3 well, 1 not' < <(ctl cluster)
}
await others_are_well || fail "--quiet: $(ctl cluster --quiet) $(ctl cluster)"
status 1 -s "$dir/n0" cluster
has 'settings differ (failover.hold_down)' <"$dir/out" || fail "$(cat "$dir/out")"
has '^slowest: 127.*Gb/s' <"$dir/out" || fail "no pair is the slowest"
# Rates were told; from here on links are all that is needed.
for node in 1 2 3; do
	kill "${pids[perf$node]}"
	wait "${pids[perf$node]}" 2>/dev/null
done
# Asked of that one, the same from its side.
seen_by_1() { # it has a link with node 0 alone
	has '^1 well, 1 not' < <(ctl_of 1 cluster)
}
await seen_by_1 || fail "node 1: $(ctl_of 1 cluster)"
# The numbers are those that the node itself tells.
[ "$(of 2 version)" = "$(ctl_of 2 info -o version)" ] || fail "version"
has '"slowest"' < <(ctl cluster -j) || fail "-j"

# A rail that is down and one that is drained.
ctl_of 2 rails drain SUP >/dev/null || fail "drain"
drained() {
	[ "$(of 2 notes)" = '["SUP drained"]' ]
}
await drained || fail "drained: $(of 2 notes)"
ctl_of 2 rails resume SUP >/dev/null

# One that stands still is named within the bound, with since when; the others
# answer as ever.
kill -STOP "${pids[3]}"
silent() {
	[ "$(of 3 state)" = silent ]
}
await silent || fail "state of who stands still: $(of 3 state)"
# Again after a while: nobody waits for it any more.
[ "$(of 2 state)" = answered ] || fail "node 2: $(of 2 state)"
has 'silent for [0-9]' < <(of 3 faults) || fail "$(of 3 faults)"
kill -CONT "${pids[3]}"
await answer || fail "node 3 does not come back: $(ctl cluster)"

# Sixty readers at once, of 64 that administrators may be, are one question for
# each peer.
for ((i = 0; i < 60; i++)); do
	ctl cluster -o state >"$dir/reader.$i" &
	readers[i]=$!
done
wait "${readers[@]}"
[ "$(cat "$dir"/reader.* | grep -c answered)" -eq 240 ] || fail "60 readers"

# A node that is gone is no peer any more once nothing waits for it, and who was
# never asked is no fault.
status 3 -s "$dir/none" cluster
[ "$failed" -eq 0 ] || tail -n 20 "$dir"/log?
exit "$failed"
