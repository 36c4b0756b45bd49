# shellcheck shell=bash
# For scripts that run nodes. The script must set $build
# first. A node is a proxy on two rails of the software HCA. Node N has the run
# directory $dir/nN, its ready line in $dir/outN, its log in $dir/logN and its
# process ID in ${pids[N]}. When the script ends, all nodes are killed.
. "$(dirname "${BASH_SOURCE[0]}")/scratch.sh"
declare -A pids

# node N OPTIONS...: start node N with these options of mpib-proxy.
node() {
	rm -f "$dir/out$1"
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n$1" \
		--sout "soft:$net.$((1 + $1))" --sup "soft:$net.$((11 + $1))" \
		"${@:2}" >"$dir/out$1" 2>>"$dir/log$1" &
	pids[$1]=$!
}

# nodes_ready N...: wait until these nodes are ready. If a node does not get
# ready, end the script.
nodes_ready() {
	local n
	for n; do
		await_ready "$dir/out$n" "${pids[$n]}" && continue
		cat "$dir/log$n"
		fail "node $n is not ready"
		exit 1
	done
}

# ctl ARGUMENT...: run mpibctl for node 0. ctl_of N ARGUMENT...: run mpibctl for
# node N.
ctl() {
	ctl_of 0 "$@"
}
ctl_of() {
	"$build/proxy/mpibctl" -s "$dir/n$1" "${@:2}"
}

# job NAME "N M..." OPTIONS...: start mpib-perf over these nodes, and set
# ${pids[NAME]}. Its output goes to $dir/NAME.
job() {
	local dirs
	# shellcheck disable=SC2086
	dirs=$(printf ",$dir/n%s" $2)
	"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
		--nodes "${dirs#,}" "${@:3}" >"$dir/$1" 2>&1 &
	pids[$1]=$!
}

# pair_start OPTIONS...: start node 0 with these options, and node 1.
pair_start() {
	node 0 "$@"
	node 1
	nodes_ready 0 1
}

# Return whether each rail of node 0 has received a megabyte.
pair_moves() {
	ctl rails -o rx_bytes |
		awk '$1 > 1000000 { n++ } END { exit n != NR || n == 0 }'
}

# pair_traffic RANKS_PER_NODE: start mpib-perf, and wait until both rails
# receive bytes.
pair_traffic() {
	job perf "0 1" --ranks-per-node "$1" --pattern ring \
		--min 1M --max 1M --iters 1000000 --warmup 1
	await pair_moves && return
	cat "$dir/perf"
	echo "no bytes move"
	exit 1
}
