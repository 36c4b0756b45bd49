#!/usr/bin/env bash
# bench.sh BUILD: check that each benchmark program prints the metrics that the
# scripts of bench/ read, and that no metric is zero.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/scratch.sh"
net=${net%.*} # bench-budget chooses the third byte
declare -A pids

"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n0" \
	--sout "soft:$net.6.1" --sup "soft:$net.7.1" >"$dir/n0.out" 2>"$dir/n0.log" &
pids[n0]=$!
ready n0

# positive METRICS PROGRAM ARG...
positive() {
	local metrics=$1 m
	shift
	timeout 100 "$build/bench/$1" "${@:2}" >"$dir/got" 2>&1 || {
		cat "$dir/got"
		echo "$*: failed"
		failed=1
		return
	}
	for m in $metrics; do
		awk -v m="$m" '$1 == m && $2 > 0 { ok = 1 }
			END { exit !ok }' "$dir/got" && continue
		cat "$dir/got"
		echo "$*: no $m"
		failed=1
	done
}

positive "turns_sender turns_receiver" bench-budget "$net" 4K 32 8 3
# Move messages in both directions over six pairs of connections of three
# tenants.
positive "turns_sender turns_receiver" bench-budget "$net" 8 96 4 0 2 delivered 6 3
plugin=$build/plugin/libnccl-net-mpib.so
export MPIB_RUN_DIR=$dir/n0
positive "turns_sender turns_receiver" bench-plug "$plugin" 64K 16 8
positive "turns_sender turns_receiver" bench-plug "$plugin" 64K 16 8 shared
positive "turns_sender turns_receiver" bench-plug "$plugin" 8 16 8 shared spin
exit "$failed"
