#!/usr/bin/env bash
# devices.sh BUILD: two proxies of three devices each, named in a file, and ranks
# that use all of them. Under traffic a rail of one device is drained, and the
# proxy hands over: that rail stays drained, the others are in use, nothing is
# lost. A fault is played on a rail of one device alone. Another number of devices cannot take over.
set -uo pipefail
build=$1
dir=$(mktemp -d /tmp/mpib-test.XXXXXX)
. "$(dirname "$0")/../support/addr.sh"
. "$(dirname "$0")/../support/lines.sh"
pids=()
failed=0
# An upgraded proxy is a child of the first, which ends with it.
trap 'kill -9 $(cat "$dir"/n*/*.pid 2>/dev/null) "${pids[@]}" 2>/dev/null
	rm -rf "$dir"' EXIT

complain() {
	echo "FAIL: $*"
	failed=1
}
ctl() {
	"$build/proxy/mpibctl" -s "$dir/n0" "$@"
}
# file NODE DEVICES
file() {
	for ((i = 0; i < $2; i++)); do
		printf '[device gpu%d]\nsout = soft:%s.%d\nsup = soft:%s.%d\n' "$i" \
			"$net" $((1 + 100 * $1 + i)) "$net" $((51 + 100 * $1 + i))
	done >"$dir/conf$1"
	printf '[sup]\nbw = 512\n[fault]\nenable = yes\n' >>"$dir/conf$1"
}
# moved RAIL: what it sent.
moved() {
	ctl rails -o label,tx_bytes | awk -v r="$1" '$1 == r { print $2 }'
}
sent_more() { # RAIL THAN
	[ "$(moved "$1")" -gt "$2" ]
}
# moves RAIL: until it has sent more.
moves() {
	await sent_more "$1" "$(moved "$1")" ||
		complain "$1 sends nothing"
}

for node in 0 1; do
	file "$node" 3
	"$build/proxy/mpib-proxy" --config "$dir/conf$node" \
		--run-dir "$dir/n$node" --peer-addr "$net.$((1 + 100 * node))" \
		>"$dir/out$node" 2>"$dir/log$node" &
	pids+=($!)
done
for node in 0 1; do
	await_ready "$dir/out$node" "${pids[$node]}"
done
grep -q '^ready .* devices 3 gpu0.SOUT ' "$dir/out0" ||
	complain "the ready line is $(cat "$dir/out0" "$dir/log0")"
[ "$(ctl devices -o net | tr '\n' ' ')" = "gpu0 gpu1 gpu2 " ] ||
	complain "the devices are $(ctl devices -o net)"

"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/n0,$dir/n1" --ranks-per-node 2 --channels 3 --dev all \
	--chunk 64K --min 384K --max 384K --steady 600s --timeout 120 >"$dir/perf" 2>&1 &
perf=$!
pids+=("$perf")

for i in 0 1 2; do
	moves "gpu$i.SUP"
done

ctl rails drain gpu1.sup >/dev/null || complain "gpu1.SUP is not drained"
ctl rails drain sup >/dev/null 2>&1 && complain "a SUP of no device is drained"
ctl rails drain gpu1.sout >/dev/null 2>&1 &&
	complain "the last rail of gpu1 is drained"
ctl upgrade >/dev/null || complain "the proxy is not upgraded"
[ "$(ctl rails -o label,drained | awk '$2 == "true" { print $1 }')" = gpu1.SUP ] ||
	complain "after the upgrade: $(ctl rails -o label,drained)"
for rail in gpu0.SUP gpu1.SOUT gpu2.SUP; do
	moves "$rail"
done
ctl metrics | has '^mpib_rail_drained{rail="SUP",net="gpu1"} 1$' ||
	complain "no metric has the drained rail"
ctl -j events | tr -d ' \n' | has '"rail":"SUP","net":"gpu1"' ||
	complain "no event is about gpu1"

# A rehearsal on one rail is not one on the others of its name.
ctl fault play link-down gpu2.sup 60 >/dev/null ||
	complain "no fault is played on gpu2.SUP"
down() {
	ctl rails -o label,state | awk '$2 == "down" { print $1 }'
}
gpu2_is_down() {
	[ "$(down)" = gpu2.SUP ]
}
await gpu2_is_down || complain "down are: $(ctl rails -o label,state)"
[ "$(ctl fault -o rail)" = gpu2.SUP ] || complain "played: $(ctl fault)"
moves gpu0.SUP
ctl fault play link-down sup 1 >/dev/null 2>&1 &&
	complain "a fault is played on a SUP of no device"
ctl fault end gpu2.sup >/dev/null || complain "the fault is not ended"

file 0 2
ctl upgrade >"$dir/upgrade" 2>&1 && complain "a device is lost by an upgrade"
grep -q 'there are 2 devices now and were 3' "$dir/upgrade" ||
	complain "the upgrade is refused by: $(cat "$dir/upgrade")"
moves gpu2.SOUT

kill -INT "$perf"
wait "$perf"
grep -q '^# wrong : 0$' "$dir/perf" || complain "$(tail -n 5 "$dir/perf")"
grep -E 'ERROR: |WARNING: ThreadSanitizer|runtime error' "$dir"/log? &&
	complain "a sanitizer spoke"
[ "$failed" -eq 0 ] || tail -n 20 "$dir/log0"
exit "$failed"
