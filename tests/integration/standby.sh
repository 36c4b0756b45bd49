#!/usr/bin/env bash
# standby.sh BUILD: two proxies of two HCAs each, device.layout = each. A device's
# standby rail moves nothing while its own HCA works, takes over when that fails,
# and stands still again once it is back; also in a process that took over.
set -uo pipefail
build=$1
dir=$(mktemp -d /tmp/mpib-test.XXXXXX)
. "$(dirname "$0")/../support/addr.sh"
. "$(dirname "$0")/../support/lines.sh"
. "$(dirname "$0")/../support/rails.sh"
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
# rests RAIL: while its device sends on.
rests() {
	local was
	was=$(sent "$1")
	moves "${1%.*}.SOUT"
	moves "${1%.*}.SOUT"
	[ "$(sent "$1")" -eq "$was" ] ||
		complain "$1 sent $was and then $(sent "$1")"
}

for node in 0 1; do
	"$build/proxy/mpib-proxy" --run-dir "$dir/n$node" --fault yes \
		--sout "soft:$net.$((1 + node))" --sup "soft:$net.$((11 + node))" \
		--device-layout each --peer-addr "$net.$((1 + node))" \
		>"$dir/out$node" 2>"$dir/log$node" &
	pids+=($!)
done
for node in 0 1; do
	for _ in $(seq 1200); do
		grep -q '^ready' "$dir/out$node" && break
		sleep 0.05
	done
done
grep -q '^ready .* devices 2 0.SOUT ' "$dir/out0" ||
	complain "the ready line is $(cat "$dir/out0" "$dir/log0")"
ctl devices -o why | grep 'each of 2 HCAs, its neighbour in reserve' >/dev/null ||
	complain "devices: $(ctl devices)"

"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/n0,$dir/n1" --ranks-per-node 2 --channels 2 --dev all \
	--chunk 64K --min 384K --max 384K --steady 600s --timeout 120 \
	>"$dir/perf" 2>&1 &
perf=$!
pids+=("$perf")

rests 0.SUP
rests 1.SUP
ctl config set sup.bw 512 >/dev/null 2>"$dir/set" &&
	complain "a share is given to a rail in reserve"
grep -q 'SUP is in reserve' "$dir/set" || complain "$(cat "$dir/set")"

ctl fault play link-down 0.sout 60 >/dev/null ||
	complain "no fault is played on 0.SOUT"
moves 0.SUP
rests 1.SUP
ctl fault end 0.sout >/dev/null || complain "the fault is not ended"
moves 0.SOUT
# What is in flight on it may be let out.
for _ in $(seq 1200); do
	was=$(sent 0.SUP)
	moves 0.SOUT
	[ "$(sent 0.SUP)" -eq "$was" ] && break
done
rests 0.SUP

ctl upgrade >/dev/null || complain "the proxy is not upgraded"
rests 0.SUP
rests 1.SUP
ctl rails drain 1.sout >/dev/null || complain "1.SOUT is not drained"
moves 1.SUP

kill -INT "$perf"
wait "$perf"
grep -q '^# wrong : 0$' "$dir/perf" || complain "$(tail -n 5 "$dir/perf")"
grep -E 'ERROR: |WARNING: ThreadSanitizer|runtime error' "$dir"/log? &&
	complain "a sanitizer spoke"
[ "$failed" -eq 0 ] || tail -n 20 "$dir/log0"
exit "$failed"
