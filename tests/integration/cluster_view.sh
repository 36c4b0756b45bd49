#!/usr/bin/env bash
# cluster_view.sh BUILD: "mpibctl cluster" on a node with three peers shows the
# state of all nodes. One peer has a different setting, and another peer is
# stopped. The output must report both of these peers, and must show the other
# nodes, too.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
# Print field $2 of node $1 from the output of node 0.
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
# A node without peers must show only itself, without a fault.
status 0 -s "$dir/n0" cluster
has '^nodes: 1 well, 0 faulty' <"$dir/out" || fail "alone: $(cat "$dir/out")"

for node in 1 2 3; do
	job "perf$node" "0 $node" --pattern sendrecv --min 1M --max 1M \
		--steady 250s --timeout 290
done
moves() {
	[ "$(ctl peers -o rx_bytes.sout | awk '$1 > 4e6' | wc -l)" -eq 3 ]
}
await moves || fail "no bytes move"
answer() { # all three peers answer
	[ "$(ctl cluster -o state | grep -c answered)" -eq 4 ]
}
await answer || fail "not all answer"

# mpibctl must report only the node whose setting differs, with the name of the
# setting.
[ "$(of 1 differs)" = '["failover.hold_down"]' ] || fail "differs: $(of 1 differs)"
[ "$(of 2 differs)" = '[]' ] || fail "differs: $(of 2 differs)"
# Wait for this, because on a busy machine a peer may answer late.
others_are_well() {
	[ "$(ctl cluster --quiet -o peer | wc -l)" -eq 1 ] &&
		has '^nodes: 3 well, 1 faulty' < <(ctl cluster)
}
await others_are_well || fail "--quiet: $(ctl cluster --quiet) $(ctl cluster)"
status 1 -s "$dir/n0" cluster
has 'settings differ (failover.hold_down)' <"$dir/out" || fail "$(cat "$dir/out")"
# The rest of the test needs only peer links, so end the traffic.
for node in 1 2 3; do
	kill "${pids[perf$node]}"
	wait "${pids[perf$node]}" 2>/dev/null
done
# Node 1 must report its peer link with node 0, too.
seen_by_1() { # its only link is with node 0
	has '^nodes: 1 well, 1 faulty' < <(ctl_of 1 cluster)
}
await seen_by_1 || fail "node 1: $(ctl_of 1 cluster)"
# Node 0 must show the version that node 2 shows.
[ "$(of 2 version)" = "$(ctl_of 2 info -o version)" ] || fail "version"
has '"took_s"' < <(ctl cluster -j) || fail "-j"

# Test a rail that is down and a rail that is drained.
ctl_of 2 rails drain SUP >/dev/null || fail "drain"
drained() {
	[ "$(of 2 notes)" = '["SUP drained"]' ]
}
await drained || fail "drained: $(of 2 notes)"
ctl_of 2 rails resume SUP >/dev/null

# Node 0 must soon show that a stopped node is silent, and how long ago it last
# answered. The other nodes must still answer.
kill -STOP "${pids[3]}"
silent() {
	[ "$(of 3 state)" = silent ]
}
await silent || fail "state of the stopped node: $(of 3 state)"
# Further requests must not wait for the stopped node.
[ "$(of 2 state)" = answered ] || fail "node 2: $(of 2 state)"
has 'silent for [0-9]' < <(of 3 faults) || fail "$(of 3 faults)"
kill -CONT "${pids[3]}"
await answer || fail "node 3 does not come back: $(ctl cluster)"

# The admin socket accepts 64 readers. For 60 simultaneous readers, node 0 sends
# only one request to each peer.
for ((i = 0; i < 60; i++)); do
	ctl cluster -o state >"$dir/reader.$i" &
	readers[i]=$!
done
wait "${readers[@]}"
[ "$(cat "$dir"/reader.* | grep -c answered)" -eq 240 ] || fail "60 readers"

# Without a proxy, the command must exit with 3.
status 3 -s "$dir/none" cluster
[ "$failed" -eq 0 ] || tail -n 20 "$dir"/log?
exit "$failed"
