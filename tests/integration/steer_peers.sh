#!/usr/bin/env bash
# steer_peers.sh BUILD: run two nodes with one agent each. While a rule of node
# 1's agent drains a rail, node 0's agent steers all bytes for node 1 to the
# other rail. So no bytes are in flight on the rail when an operator takes it
# down. When the rule is removed, node 0 uses the rail again.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
told() { # FIELD of node 1, as node 0 is told it
	ctl cluster -o "peer,$1" |
		awk -F '\t' -v p="$net.2:" 'index($1, p) == 1 { print $2 }'
}
# Print SUP's share at node 0, and what has set this share.
split() {
	ctl why -o source,sup_bw | sort -u
}
is() { # WANTED COMMAND...
	[ "$("${@:2}")" = "$1" ]
}

for node in 0 1; do
	node $node --mode adaptive --agent-dir "$dir/agent$node"
done
nodes_ready 0 1
for node in 0 1; do
	echo "island island$node" >"$dir/conf$node"
	"$build/proxy/mpib-agent" --dir "$dir/agent$node" \
		--run-dir "$dir/n$node" --config "$dir/conf$node" \
		>"$dir/a$node.out" 2>"$dir/a$node.log" &
	pids[a$node]=$!
done
ready a0
ready a1
job perf "0 1" --pattern sendrecv --min 1M --max 1M --steady 250s --timeout 290

# Before node 1 drains a rail, node 0 must already know the island of node 1.
named() {
	has '"island":"island1"' < <(told agent)
}
await named || fail "island: $(told agent)"
await is '[]' told agent.maintenance || fail "$(told agent)"
has '^adaptive' < <(split) || fail "before: $(split)"

# rule PEERS: give the agent of node 1 a rule that drains SUP for these peers.
# An empty PEERS means all peers.
rule() {
	echo "island island1" >"$dir/conf1"
	echo "rule $1 from 2020-01-01T00:00:00Z to 2099-01-01T00:00:00Z drain sup" \
		>>"$dir/conf1"
	kill -HUP "${pids[a1]}"
}
rule ""
await is $'hint\t0' split || fail "in maintenance: $(split)"
is '["SUP"]' told agent.maintenance || fail "$(told agent)"
is '["SUP in maintenance"]' told notes || fail "$(told notes)"
because() {
	has 'SUP avoided: maintenance at the peer' < <(ctl why)
}
await because || fail "the agent does not say why: $(ctl why)"
# Check that SUP sends no more bytes.
sup() {
	ctl rails -o name,tx_bytes | awk '$1 == "SUP" { print $2 }'
}
sout() {
	ctl rails -o name,tx_bytes | awk '$1 == "SOUT" { print $2 }'
}
still() {
	local a b
	a=$(sup) && sleep 0.1 && b=$(sup) && [ "$a" -eq "$b" ]
}
await still || fail "SUP still carries bytes"
before=$(sout)
grows() {
	[ "$(sout)" -gt "$((before + 1000000))" ]
}
await grows || fail "SOUT sends no new bytes"

# Replace the rule with a rule for other peers, which must not affect node 0.
rule "network 10.1.2.0/24"
await is '[]' told agent.maintenance || fail "for others: $(told agent)"
adaptive() {
	has '^adaptive' < <(split)
}
await adaptive || fail "after: $(split)"

# When the agent of node 1 ends, node 0 must no longer show this agent's values.
kill "${pids[a1]}"
await is - told agent || fail "the agent is gone: $(told agent)"
[ "$failed" -eq 0 ] || tail -n 20 "$dir"/log? "$dir"/*.log "$dir/perf"
exit "$failed"
