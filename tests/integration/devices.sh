#!/usr/bin/env bash
# devices.sh BUILD: run two proxies with three devices each, configured by a
# file. Ranks use all devices. While messages move, a rail of one device is
# drained. The other rails carry the messages, and no byte is lost. Then a fault
# is injected into a rail of one device, which must not affect the other
# devices.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
. "$(dirname "$0")/../support/rails.sh"

# file NODE DEVICES
file() {
	for ((i = 0; i < $2; i++)); do
		printf '[device gpu%d]\nsout = soft:%s.%d\nsup = soft:%s.%d\n' "$i" \
			"$net" $((1 + 100 * $1 + i)) "$net" $((51 + 100 * $1 + i))
	done >"$dir/conf$1"
	printf '[sup]\nbw = 512\n' >>"$dir/conf$1"
}

export MPIB_SOFT_FAULTS=$dir/faults
mkdir "$MPIB_SOFT_FAULTS"
for node in 0 1; do
	file "$node" 3
	"$build/proxy/mpib-proxy" --config "$dir/conf$node" \
		--run-dir "$dir/n$node" --peer-addr "$net.$((1 + 100 * node))" \
		>"$dir/out$node" 2>"$dir/log$node" &
	pids[$node]=$!
done
nodes_ready 0 1
grep -q '^ready .* devices 3 gpu0.SOUT ' "$dir/out0" ||
	fail "the ready line is $(cat "$dir/out0" "$dir/log0")"
[ "$(ctl devices -o net | tr '\n' ' ')" = "gpu0 gpu1 gpu2 " ] ||
	fail "the devices are $(ctl devices -o net)"

job perf "0 1" --ranks-per-node 2 --channels 3 --dev all --chunk 64K \
	--min 384K --max 384K --steady 600s --timeout 120

for i in 0 1 2; do
	moves "gpu$i.SUP"
done

ctl rails drain gpu1.sup >/dev/null || fail "gpu1.SUP is not drained"
ctl rails drain sup >/dev/null 2>&1 && fail "a SUP of no device is drained"
ctl rails drain gpu1.sout >/dev/null 2>&1 &&
	fail "the last rail of gpu1 is drained"
[ "$(ctl rails -o label,drained | awk '$2 == "true" { print $1 }')" = gpu1.SUP ] ||
	fail "drained rails: $(ctl rails -o label,drained)"
for rail in gpu0.SUP gpu1.SOUT gpu2.SUP; do
	moves "$rail"
done
ctl metrics | has '^mpib_rail_drained{rail="SUP",net="gpu1"} 1$' ||
	fail "no metric has the drained rail"
ctl -j events | tr -d ' \n' | has '"rail":"SUP","net":"gpu1"' ||
	fail "no event is about gpu1"

# A fault on a rail must not affect rails with the same name on other devices.
echo link-down >"$MPIB_SOFT_FAULTS/$net.53"
down() {
	ctl rails -o label,state | awk '$2 == "down" { print $1 }'
}
gpu2_is_down() {
	[ "$(down)" = gpu2.SUP ]
}
await gpu2_is_down || fail "states of the rails: $(ctl rails -o label,state)"
moves gpu0.SUP
rm "$MPIB_SOFT_FAULTS/$net.53"

moves gpu2.SOUT

kill -INT "${pids[perf]}"
wait "${pids[perf]}"
grep -q '^# wrong : 0$' "$dir/perf" || fail "$(tail -n 5 "$dir/perf")"
grep -E 'ERROR: |WARNING: ThreadSanitizer|runtime error' "$dir"/log? &&
	fail "a sanitizer reported an error"
[ "$failed" -eq 0 ] || tail -n 20 "$dir/log0"
exit "$failed"
