# shellcheck shell=bash
# Functions that the commands of this folder share. This file is sourced, not run.
#
#   bench_setup NAME [BUILD]  install packages (those of $bench_packages, else of
#                             bench), build, make a scratch directory $dir
#   bench_nodes N [options]   start N proxies with two software rails each and run
#                             directories $dir/n0... Node i runs on the CPUs
#                             ${bench_cpus[i]}, if set. bench_nodes_stop stops them
#   bench_halves              give each of nodes 0 and 1 half of the CPUs, like
#                             mpib-perf --pin
#   bench_load                print one line about this machine and its load
#   need TOOL PACKAGE         if TOOL is missing, print a line to stderr and fail
#   run_perf, value, emit     run mpib-perf, print a value, store it as a sample
#   tally, item               print the table of all samples; see tally.pl

top=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$top/cmake/usage.sh"
. "$top/tests/support/lines.sh"
pids=()

bench_die() {
	echo "$bench: $*" >&2
	exit 1
}

at_end() {
	bench_nodes_stop
	net_release
}

bench_setup() {
	bench=$1 build=${2:-}
	bash "$top/cmake/setup-debian.sh" "${bench_packages:-bench}" ||
		echo "$bench: continuing without the missing packages" >&2
	if [ -z "$build" ]; then
		build=$top/build
		(cd "$top" && cmake --preset dev && cmake --build build) \
			>"$top/build.log" 2>&1 || {
			tail -n 40 "$top/build.log"
			bench_die "the build failed"
		}
		rm -f "$top/build.log"
	fi
	build=$(CDPATH='' cd "$build" && pwd) || exit 1
	plugin=$build/plugin/libnccl-net-mpib.so
	[ -x "$build/bench/mpib-perf" ] || bench_die "$build is no build"
	. "$top/tests/support/addr.sh"
	net=${net%.*}
	. "$top/tests/support/workdir.sh"
	trap 'exit 130' INT TERM
}

bench_cpus=()
bench_halves() {
	local may cpus=() n=0
	for may in $(taskset -cp $$ | sed 's/.*: //; s/,/ /g'); do
		mapfile -t -O "$n" cpus < <(seq "${may%-*}" "${may#*-}")
		n=${#cpus[@]}
	done
	[ "$n" -gt 1 ] || cpus+=("${cpus[0]}")
	local IFS=,
	bench_cpus=("${cpus[*]:0:${#cpus[@]} / 2}" "${cpus[*]:${#cpus[@]} / 2}")
}

# Start nodes. Each set has new addresses, since closed sockets linger for a while.
bench_set=0
bench_nodes() {
	local n=$1 i
	shift
	bench_set=$((bench_set % 126 + 1))
	for ((i = 0; i < n; i++)); do
		rm -rf "$dir/n$i" "$dir/out$i"
		${bench_cpus[$i]:+taskset -c "${bench_cpus[$i]}"} \
			"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n$i" \
			--sout "soft:$net.$((2 * bench_set)).$((i + 1))" \
			--sup "soft:$net.$((2 * bench_set + 1)).$((i + 1))" \
			"$@" >"$dir/out$i" 2>"$dir/log$i" &
		pids+=($!)
	done
	for ((i = 0; i < n; i++)); do
		await_ready "$dir/out$i" "${pids[$i]}" || {
			cat "$dir/log$i" >&2
			bench_die "the proxy of node $i did not start"
		}
	done
}

bench_nodes_stop() {
	local pid
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null
	done
	for pid in "${pids[@]}"; do
		wait "$pid" 2>/dev/null
	done
	pids=()
}

bench_load() {
	echo "$(date -u +%Y-%m-%dT%H:%MZ), $(nproc) x" \
		"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
		"Linux $(uname -r), load $(cut -d' ' -f1-3 /proc/loadavg)," \
		"$(ps -eo stat= | grep -c '^R') runnable"
}

need() {
	command -v "$1" >/dev/null && return 0
	echo "$bench: no $1 (package $2): left out" >&2
	return 1
}

# wanted ROW: succeed if the expression of --only, stored in $only, matches the
# row.
wanted() {
	[[ $1 =~ ^($only)$ ]]
}

# Report a failed row. The other rows are still measured; then the command exits
# with $failed.
failed=0
complain() {
	failed=1
	echo "$bench: $*" >&2
}

# bench_out DIR: make $out, which is DIR or the command's directory in the build,
# with an empty file samples.
bench_out() {
	out=${1:-$build/bench/out/$bench}
	mkdir -p "$out" && : >"$out/samples" || exit 1
}

# emit ROW METRIC VALUE: store a sample of repetition $rep.
emit() {
	[ -n "$3" ] && echo "$rep $1 $2 $3" >>"$out/samples"
}

# run_perf ROW OPTION...: run mpib-perf, and write its rows to $dir/rows. The first
# run checks every byte. The timed run then uses the same buffers again and again
# without checks, as other programs do.
run_perf() {
	local perf=("$build/bench/mpib-perf" --pin "${@:2}")
	timeout 120 "${perf[@]}" --warmup 0 --iters 3 >"$dir/perf" 2>&1 &&
		timeout 120 "${perf[@]}" --check 0 --json "$dir/json" \
			>"$dir/perf" 2>&1 || {
		complain "$1: $(grep -v '^#' "$dir/perf" | tail -n 1)" \
			"$(grep '^# wrong : [1-9]' "$dir/perf")"
		return 1
	}
	perf_rows "$dir/json" >"$dir/rows"
}

# value KEY: print the sum of the values that the last run_perf() wrote for keys
# that match KEY, an extended regular expression.
value() {
	awk -v k="^$1\$" '$2 ~ k && $3 >= 0 { v += $3; n++ } END { if (n) print v }' \
		"$dir/rows"
}

# emit_busbw ROW PREFIX [SUFFIX]: store the bus bandwidth of each size of
# run_perf() as a sample.
emit_busbw() {
	local size key v
	while read -r size key v; do
		[ "$key" != busbw ] || emit "$1" "$2$size${3:-}" "$v"
	done <"$dir/rows"
}

# as_peer COMMAND...: run a command with NCCL's net_ib on the software HCA, with
# one device. net_ib loads libibverbs by name and gets the drop-in library.
as_peer() {
	MPIB_SOFT_DEVICES=soft0=$net.100.1 NCCL_SOCKET_IFNAME=lo \
		LD_LIBRARY_PATH=$build/runtime/softverbs/dropin \
		NCCL_IB_MERGE_NICS=0 NCCL_GIN_TYPE=2 "$@"
}

# cpu_of PID...: print user and system seconds of processes, in steps of 0.01 s.
cpu_of() {
	local pid sum=0 hz
	hz=$(getconf CLK_TCK)
	for pid in "$@"; do
		sum=$((sum + $(sed 's/.*) //' "/proc/$pid/stat" |
			awk '{ print $12 + $13 }')))
	done
	awk -v t="$sum" -v hz="$hz" 'BEGIN { printf "%.2f", t / hz }'
}

# tally LAYOUT SAMPLES: print medians and ranges, see tally.pl.
tally() {
	perl "$top/bench/tally.pl" "$@"
}

# perf_rows FILE: print mpib-perf's --json as lines "SIZE KEY VALUE".
perf_rows() {
	tr -d '", ' <"$1" | awk -F: '$1 == "size" { size = $2 }
		size && NF == 2 && $2 ~ /^[-0-9]/ { print size, $1, $2 }
		$1 ~ /^\]/ { size = "" }'
}

# item WORD...: print one item of a layout of tally.
item() {
	local IFS=$'\t'
	echo "$*"
}
