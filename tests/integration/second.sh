#!/usr/bin/env bash
# second.sh BUILD: two nodes in network namespaces have a wire for each rail.
# The peer link uses SOUT's address. When SOUT's wire is cut, the link must move
# to SUP's address. When SUP's wire is cut, the link must move back to SOUT's
# address. A job runs during the whole test. The output of ss shows which
# address the link uses.
set -uo pipefail
build=$(realpath "$1")
if [ "${2:-}" != inside ]; then
	if ! unshare -Urnm ip link show >/dev/null 2>&1 || ! ss -V >/dev/null 2>&1; then
		echo "SKIPPED: a second address: no namespace, ip or ss"
		exit 77
	fi
	exec unshare -Urnm bash "$0" "$build" inside
fi
. "$(dirname "$0")/../support/nodes.sh"
. "$(dirname "$0")/../support/rails.sh"
mount -t tmpfs none /run && mkdir /run/netns || exit 1
links() {
	ip netns exec node0 ss -Htn state established '( sport = 24790 or dport = 24790 )'
}
has_link() {
	links | has -F "$1:"
}
# goes_by ADDRESS: check that there is exactly one peer link, and that the link
# uses this address of node 1.
goes_by() {
	[ "$(links | awk '$3 ~ /:24790$/ || $4 ~ /:24790$/' | wc -l)" -eq 1 ] &&
		has_link "$1"
}
# cut WIRE ADDRESS: cut the wire, and check that the link moves to the address.
cut_wire() {
	ip -n node0 link set "w$1" down
	await goes_by "$2" || fail "without wire $1 the link is: $(links)"
}

for node in 0 1; do
	ip netns add "node$node" && ip -n "node$node" link set lo up || exit 1
done
for wire in 0 1; do
	ip link add "w$wire" netns node0 type veth peer name "w$wire" netns node1 || exit 1
	for node in 0 1; do
		ip -n "node$node" address add \
			"192.0.2.$((wire * 128 + node + 1))/25" dev "w$wire"
		ip -n "node$node" link set "w$wire" up
	done
done
for node in 0 1; do
	touch "$dir/conf$node"
	ip netns exec "node$node" "$build/proxy/mpib-proxy" --config "$dir/conf$node" \
		--run-dir "$dir/n$node" \
		--sout "soft:192.0.2.$((1 + node))" \
		--sup "soft:192.0.2.$((129 + node))" \
		>"$dir/out$node" 2>"$dir/log$node" &
	pids[$node]=$!
	nodes_ready "$node"
done
job perf "0 1" --ranks-per-node 1 --channels 2 \
	--chunk 64K --min 384K --max 384K --steady 600s --timeout 120

moves SOUT
await goes_by 192.0.2.2 || fail "at first the link is: $(links)"
cut_wire 0 192.0.2.130
moves SUP
ip -n node0 link set w0 up
moves SOUT
cut_wire 1 192.0.2.2
moves SOUT
ip -n node0 link set w1 up
moves SUP

kill -INT "${pids[perf]}"
wait "${pids[perf]}" || fail "the job ends with $?"
grep -q '^# wrong : 0$' "$dir/perf" || fail "$(tail -n 5 "$dir/perf")"
grep -h 'lanes are lost' "$dir"/log? && fail "lanes were lost with the link"
grep -q 'link is up again by its second address' "$dir"/log? ||
	fail "no log line mentions the second address"
[ "$failed" -eq 0 ] || tail -n 30 "$dir"/log?
exit "$failed"
