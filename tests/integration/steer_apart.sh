#!/usr/bin/env bash
# steer_apart.sh BUILD: run two jobs over rails with limited rates: one sends
# short messages, the other sends bulk data to another node. If both jobs use
# both rails, the short messages wait behind the bulk data. An agent that knows
# the jobs puts them on different rails.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
# Count the messages to node $1.
messages() {
	ctl peers -o peer,messages | awk -v to="$net.$((1 + $1)):" \
		'index($1, to) == 1 { n = $2 } END { print n + 0 }'
}
# Print the bytes that SOUT, SUP and both rails have moved so far, and the
# number of short messages.
now() {
	local -a n
	read -r -d '' -a n < <(ctl rails -o tx_bytes)
	echo "${n[0]} ${n[1]} $((n[0] + n[1])) $(messages 2)"
}
passed() { # BYTES over both rails, short MESSAGES
	local -a n
	read -r -a n < <(now)
	[ "${n[2]}" -ge "$1" ] && [ "${n[3]}" -ge "$2" ]
}
# Wait until both rails together have moved 16 MiB and at least 16 short
# messages have been sent. Print how many bytes SOUT, SUP and both rails moved
# meanwhile, and the number of short messages.
while_bulk_moves() {
	local -a a b
	read -r -a a < <(now)
	await passed $((a[2] + (16 << 20))) $((a[3] + 16)) ||
		fail "nothing moves"
	read -r -a b < <(now)
	echo "$((b[0] - a[0])) $((b[1] - a[1])) $((b[2] - a[2]))" \
		"$((b[3] - a[3]))"
}

export MPIB_SOFT_FAULTS=$dir/faults
mkdir "$MPIB_SOFT_FAULTS"
for rail in 1 11; do
	echo rate=100 >"$MPIB_SOFT_FAULTS/$net.$rail"
done
for node in 0 1 2; do
	node $node --mode adaptive --agent-dir "$dir/agent$node"
done
nodes_ready 0 1 2
lasting=(--steady 200s --timeout 250)
job bulk "0 1" --pattern stream --min 4M --max 4M "${lasting[@]}"
job short "0 2" --pattern pingpong --min 64 --max 64 "${lasting[@]}"
await passed 8000000 100 || fail "the jobs do not start"
read -r -a alone < <(while_bulk_moves)

cat >"$dir/conf" <<EOF
rule peer $net.2 drain sup
rule peer $net.3 drain sout
EOF
"$build/proxy/mpib-agent" --dir "$dir/agent0" --run-dir "$dir/n0" \
	--config "$dir/conf" >"$dir/agent.out" 2>"$dir/agent.log" &
pids[agent]=$!
ready agent
steered() {
	[ "$(ctl why -o source | sort -u)" = hint ]
}
await steered || fail "no job is steered: $(ctl why)"
while_bulk_moves >/dev/null # earlier messages complete during this call
read -r -a kept < <(while_bulk_moves)
echo "short messages beside ${alone[2]} bytes: ${alone[3]} alone," \
	"beside ${kept[2]}: ${kept[3]} kept apart"
# Check only which rail carries the short messages, because their speed depends
# on the machine.
[ "${alone[1]}" -ge $((4 << 20)) ] || fail "alone SUP is idle: ${alone[*]}"
[ "${kept[1]}" -le $((kept[3] * 256 + 65536)) ] ||
	fail "SUP carries bulk, beside short messages: ${kept[*]}"
[ "${kept[1]}" -gt 0 ] || fail "SUP carries nothing: ${kept[*]}"
for job in bulk short; do
	lives "${pids[$job]}" || fail "$job ended: $(cat "$dir/$job")"
done
exit "$failed"
