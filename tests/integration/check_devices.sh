#!/usr/bin/env bash
# check_devices.sh BUILD: run "mpib-perf check" on two nodes with four devices
# each and a node with two devices. The check must test each device and print a
# verdict for it. It must report a drained rail only for the rail's own device.
# If a server sends wrong data about itself, the check must not crash, and must
# not print the data unfiltered.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
perf=$build/bench/mpib-perf

# devices NODE COUNT
devices() {
	for ((i = 0; i < $2; i++)); do
		printf '[device gpu%d]\nsout = soft:%s.%d\nsup = soft:%s.%d\n' "$i" \
			"$net" $((1 + 60 * $1 + i)) "$net" $((31 + 60 * $1 + i))
	done >"$dir/conf$1"
	printf '[sup]\nbw = 512\n' >>"$dir/conf$1"
	"$build/proxy/mpib-proxy" --config "$dir/conf$1" --run-dir "$dir/n$1" \
		--peer-addr "$net.$((1 + 60 * $1))" >"$dir/out$1" 2>"$dir/log$1" &
	pids[$1]=$!
}
# serve NODE: start a server on the node. The server must print that it listens
# at the address of the node's peer link.
serve() {
	MPIB_RUN_DIR=$dir/n$1 "$perf" --server --port 0 --timeout 100 \
		--plugin "$build/plugin/libnccl-net-mpib.so" >"$dir/server$1" 2>&1 &
	pids[server$1]=$!
	await_ready "$dir/server$1" "${pids[server$1]}" ||
		fail "server $1 is not ready: $(<"$dir/server$1")"
	has "^note: .* $net.$((1 + 60 * $1)) port " <"$dir/server$1" ||
		fail "server $1 does not say where it listens: $(<"$dir/server$1")"
	host[$1]=$net.$((1 + 60 * $1)):$(sed -n 's/^ready: port //p' "$dir/server$1")
}
declare -A host
devices 0 4
devices 1 4
devices 2 2
nodes_ready 0 1 2
for n in 0 1 2; do
	serve "$n"
done

# check NAME HOST...
check() {
	local name=$1
	shift
	timeout 300 "$perf" check "$@" --steady 0.1s --timeout 100 \
		--json "$dir/json" >"$dir/$name" 2>&1
}
check four "${host[0]}" "${host[1]}" || fail "four devices: $(<"$dir/four")"
for i in 0 1 2 3; do
	has " $i  ok  *right .* gpu$i.SOUT [0-9.]* gpu$i.SUP [0-9.]* | gpu$i.SOUT" \
		<"$dir/four" || fail "device $i: $(<"$dir/four")"
done
has '^# check : PASS, 1 of 1 pairs' <"$dir/four" || fail "$(<"$dir/four")"
[ "$(grep -c '"device": [0-3],' "$dir/json")" -eq 4 ] || fail "JSON: $(<"$dir/json")"
# No rate may be impossibly high, as it would be if the check subtracted the
# wrong device counters.
awk '/ ok / { for (i = 9; i <= NF; i++) if ($i + 0 > 100000) exit 1 }' "$dir/four" ||
	fail "rates: $(<"$dir/four")"

check fewer "${host[0]}" "${host[2]}" && fail "a node with two devices passes"
has 'has 4 devices and .* 2: the others are not tested' <"$dir/fewer" ||
	fail "fewer devices: $(<"$dir/fewer")"
[ "$(grep -c ' right ' "$dir/fewer")" -eq 2 ] || fail "$(<"$dir/fewer")"
exit "$failed"
