# shellcheck shell=bash
# Sourced with $build set: two nodes of two rails with traffic between them, for
# tests of what looks at them. All of it ends with the test.
. "$(dirname "$0")/../support/scratch.sh"

# pair_start [OPTIONS OF NODE 0]...: run directories $dir/n0 and $dir/n1.
pair_start() {
	local node
	for node in 0 1; do
		[ "$node" -eq 0 ] || set --
		"$build/proxy/mpib-proxy" --config /dev/null \
			--run-dir "$dir/n$node" --sout "soft:$net.$((1 + node))" \
			--sup "soft:$net.$((11 + node))" "$@" \
			>"$dir/out$node" 2>"$dir/log$node" &
		pids+=($!)
	done
	for node in 0 1; do
		await_ready "$dir/out$node" "${pids[$node]}" && continue
		cat "$dir/log$node"
		echo "proxy $node is not ready"
		exit 1
	done
}

# Both rails of node 0 have had a megabyte.
pair_moves() {
	"$build/proxy/mpibctl" -s "$dir/n0" rails -o rx_bytes |
		awk '$1 > 1000000 { n++ } END { exit n != NR || n == 0 }'
}

# pair_traffic RANKS_A_NODE: starts, and returns once bytes move.
pair_traffic() {
	"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
		--nodes "$dir/n0,$dir/n1" --ranks-per-node "$1" --pattern ring \
		--min 1M --max 1M --iters 1000000 --warmup 1 \
		>"$dir/perf" 2>&1 &
	pids+=($!)
	await pair_moves && return
	cat "$dir/perf"
	echo "no bytes move"
	exit 1
}
