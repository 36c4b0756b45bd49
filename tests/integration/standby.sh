#!/usr/bin/env bash
# standby.sh BUILD: run two proxies with two HCAs each and device.layout = each.
# While a device's own HCA works, the device's standby rail must move no byte.
# When the HCA fails, the standby rail must carry the device's bytes. When the
# HCA works again, the standby rail must be idle again.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
. "$(dirname "$0")/../support/rails.sh"

# rests RAIL: check that the standby rail RAIL moves no byte while its device
# sends.
rests() {
	local was
	was=$(sent "$1")
	moves "${1%.*}.SOUT"
	moves "${1%.*}.SOUT"
	[ "$(sent "$1")" -eq "$was" ] ||
		fail "$1 sent $was and then $(sent "$1")"
}

export MPIB_SOFT_FAULTS=$dir/faults
mkdir "$MPIB_SOFT_FAULTS"
for node in 0 1; do
	node $node --device-layout each \
		--peer-addr "$net.$((1 + node))"
done
nodes_ready 0 1
grep -q '^ready .* devices 2 0.SOUT ' "$dir/out0" ||
	fail "the ready line is $(cat "$dir/out0" "$dir/log0")"
ctl devices -o why | grep 'each of 2 HCAs, its neighbour in reserve' >/dev/null ||
	fail "devices: $(ctl devices)"

job perf "0 1" --ranks-per-node 2 --channels 2 --dev all \
	--chunk 64K --min 384K --max 384K --steady 600s --timeout 120

rests 0.SUP
rests 1.SUP
ctl config set sup.bw 512 >/dev/null 2>"$dir/set" &&
	fail "a standby rail was given a share"
grep -q 'SUP is a standby rail' "$dir/set" || fail "$(cat "$dir/set")"

echo link-down >"$MPIB_SOFT_FAULTS/$net.1"
moves 0.SUP
rests 1.SUP
rm "$MPIB_SOFT_FAULTS/$net.1"
moves 0.SOUT
# Bytes may still be in flight on the standby rail, so wait until it is idle.
for _ in $(seq 1200); do
	was=$(sent 0.SUP)
	moves 0.SOUT
	[ "$(sent 0.SUP)" -eq "$was" ] && break
done
rests 0.SUP

ctl rails drain 1.sout >/dev/null || fail "1.SOUT is not drained"
moves 1.SUP

kill -INT "${pids[perf]}"
wait "${pids[perf]}"
grep -q '^# wrong : 0$' "$dir/perf" || fail "$(tail -n 5 "$dir/perf")"
grep -E 'ERROR: |WARNING: ThreadSanitizer|runtime error' "$dir"/log? &&
	fail "a sanitizer reported an error"
[ "$failed" -eq 0 ] || tail -n 20 "$dir/log0"
exit "$failed"
