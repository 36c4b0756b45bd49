#!/usr/bin/env bash
# islands.sh BUILD: run four proxies in two islands, in vanilla mode. Between
# ranks of one island, payload and CTS must use SUP, and a lane has one QP per
# rail. Between islands, all bytes must use SOUT, and a lane has one QP on SOUT
# and none on SUP. With ranks on all four nodes, each lane must follow the rule
# for its nodes. A node with other islands must get no lane, and the error
# message must say how each end sees the islands.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/scratch.sh"
net=${net%.*} # islands differ in their third byte

# proxy NAME ISLAND HOST [ARGS...]
proxy() {
	local name=$1 island=$2 host=$3
	shift 3
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/$name" \
		--sout "soft:$net.$island.$host" \
		--sup "soft:$net.$((island + 10)).$host" "$@" \
		>"$dir/$name.out" 2>"$dir/$name.log" &
	pids+=($!)
	await_ready "$dir/$name.out" $! && return
	cat "$dir/$name.log"
	fail "$name is not ready"
	exit 1
}
proxy a0 1 1 --island-prefix 24
proxy a1 1 2 --island-prefix 24
proxy b0 2 1 --island-networks "$net.1.0/24,$net.2.0/24"
proxy b1 2 2 --island-networks "$net.1.0/24,$net.2.0/24"

ctl() {
	"$build/proxy/mpibctl" -s "$dir/$1" "${@:2}"
}
# For each peer, print its name, its port, the numbers of QPs on SOUT and SUP,
# and the payload on SOUT and SUP.
lanes() {
	ctl "$1" lanes -o peer,qps.sout,qps.sup,tx_bytes.sout,rx_bytes.sout,tx_bytes.sup,rx_bytes.sup |
		awk -F '[\t:]' '{ print $1, $2, $3, $4, $5 + $6, $7 + $8 }'
}
rails() {
	ctl "$1" rails -o name,tx_bytes,cts | tr '\n\t' '  '
}
perf() {
	local nodes=$1
	shift
	timeout 120 "$build/bench/mpib-perf" \
		--plugin "$build/plugin/libnccl-net-mpib.so" --nodes "$nodes" \
		--timeout 60 --min 0 --max 1M --factor 32 --iters 2 "$@" \
		>"$dir/perf" 2>&1 && grep -q '^# wrong : 0$' "$dir/perf" &&
		return
	cat "$dir/perf"
	fail "$nodes: traffic failed"
}

# Within an island, SOUT must carry neither payload nor CTS.
perf "$dir/a0,$dir/a1" --ranks-per-node 2 --pattern alltoall
for node in a0 a1; do
	read -r _ sout sout_cts _ sup sup_cts <<<"$(rails $node)"
	[ "$sout" -eq 0 ] && [ "$sout_cts" -eq 0 ] && [ "$sup" -gt 0 ] &&
		[ "$sup_cts" -gt 0 ] ||
		fail "within an island: $node moved $(rails $node)"
done

# The ranks are numbered node by node, so each rank sends only to the other
# island.
before=$(rails a1)
perf "$dir/a1,$dir/b1" --pattern sendrecv --channels 2
read -r _ _ _ _ sup0 cts0 <<<"$before"
read -r _ sout _ _ sup cts <<<"$(rails a1)"
[ "$sout" -gt 0 ] && [ "$sup" -eq "$sup0" ] && [ "$cts" -eq "$cts0" ] ||
	fail "between islands: a1 moved $before, then $(rails a1)"
[ "$(rails b1 | awk '{ print $5 }')" -eq 0 ] ||
	fail "between islands: b1 moved $(rails b1)"

all=$dir/a0,$dir/a1,$dir/b0,$dir/b1
perf "$all" --ranks-per-node 2 --pattern alltoall

# Run a ring of ranks over all four nodes, and check the lanes while messages
# move.
"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$all" --ranks-per-node 2 --pattern sendrecv --min 64K \
	--max 64K --steady 60s --timeout 60 >"$dir/ring" 2>&1 &
ring=$!
pids+=("$ring")
two_move() {
	lanes b0 2>/dev/null | awk '$5 + $6 > 0 { n++ } END { exit n < 2 }'
}
await two_move
lanes b0 >"$dir/lanes"
cat "$dir/lanes"
awk -v net="$net" '
	{ n++; intra = index($1, net ".2.") == 1 }
	intra && !($3 == 1 && $4 == 1 && $5 == 0 && $6 > 0) { bad = 1 }
	!intra && !($3 == 1 && $4 == 0 && $5 > 0 && $6 == 0) { bad = 1 }
	END { exit bad || n < 2 }' "$dir/lanes" ||
	fail "the lanes of b0 are wrong"
why() {
	{ ctl b0 why -o source,path,sup_bw; ctl b1 why -o source,path,sup_bw; } |
		sort -u
}
# Wait for the ring's connections, which are made after its lanes.
both_why() {
	why >"$dir/why"
	[ "$(wc -l <"$dir/why")" -ge 2 ]
}
await both_why
printf 'isolation\tinter-island\t0\nisolation\tintra-island\t1024\n' |
	diff - "$dir/why" || fail "why says something else"
kill -9 "$ring"

# Start a node whose island prefix makes all nodes one island.
proxy odd 1 3 --island-prefix 8
timeout 60 "$build/bench/mpib-perf" \
	--plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/odd,$dir/b0" --timeout 20 --min 1K --max 1K \
	>"$dir/perf" 2>&1 && fail "ends that disagree made a lane"
grep -q 'vanilla, intra-island' "$dir/perf" &&
	grep -q 'vanilla, inter-island' "$dir/perf" || {
	cat "$dir/perf"
	fail "the message does not have the views of both ends"
}
exit "$failed"
