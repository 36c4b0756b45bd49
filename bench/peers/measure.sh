# shellcheck shell=bash
# How each row of bench/compare is measured; sourced by bench/compare. A
# function takes a row's name and what to run, and emits the samples of
# repetition $rep. $dir, $build, $b and the options are set by bench/compare,
# which has also sourced bench/lib.sh.

# emit ROW METRIC VALUE
emit() {
	[ -n "$3" ] && echo "$rep $1 $2 $3" >>"$out/samples"
}

# run_perf ROW OPTION...: run mpib-perf, its rows go to $dir/rows; false when it
# failed. The timed run uses the same buffers again and again without checking
# them, as the peers' programs do; a run before it checks every byte.
run_perf() {
	local row=$1
	shift
	timeout 120 "$b/mpib-perf" "$@" --warmup 0 --iters 3 \
		>"$dir/perf" 2>&1 &&
		timeout 120 "$b/mpib-perf" --check 0 --json "$dir/json" "$@" \
			>"$dir/perf" 2>&1 || {
		complain "$row: $(grep -v '^#' "$dir/perf" | tail -n 1)" \
			"$(grep '^# wrong : [1-9]' "$dir/perf")"
		return 1
	}
	perf_rows "$dir/json" >"$dir/rows"
}

value() {
	awk -v k="$1" '$2 == k { v = $3 } END { print v }' "$dir/rows"
}

# plugin_rows ROW OPTION...: streams through a plugin that the options name.
# Eight messages make an iteration, so there are as many buffers as NCCL has.
plugin_rows() {
	local row=$1 size
	shift
	wanted "$row" || return 0
	for size in "${sizes[@]}"; do
		run_perf "$row" "$@" --pin --pattern stream --chunk "$size" \
			--min $((8 * size)) --max $((8 * size)) \
			--iters $((total / (8 * size) + 1)) || return
		emit "$row" "bw@$size" "$(value algbw)"
		[ "$size" -eq 524288 ] || continue
		emit "$row" cpu "$(awk '$2 ~ /^cpu_/ && $3 > 0 { v += $3 }
			END { print v }' "$dir/rows")"
	done
	run_perf "$row" "$@" --pin --pattern pingpong --min 8 --max 8 --iters 5000 ||
		return
	emit "$row" lat@50 "$(value p50_us)"
	emit "$row" lat@90 "$(value p90_us)"
	emit "$row" lat@99 "$(value p99_us)"
	emit "$row" lat@99.9 "$(value p999_us)"
}

# Eight ranks on two nodes, or eight ranks alone for a plugin without proxies.
# The untimed iterations are enough for mpib's connections to get whole staging
# windows.
all_reduce() {
	local row=$1
	shift
	wanted "$row" || return 0
	run_perf "$row" "$@" --pin --pattern ring --min 1M --max 64M --factor 8 \
		--iters 3 --warmup 20 || return
	while read -r size key v; do
		[ "$key" = busbw ] && emit "$row" "ring@$size" "$v"
	done <"$dir/rows"
}

measure_mpib() {
	local mpib=(--plugin "$plugin" --nodes "$dir/n0,$dir/n1")

	plugin_rows mpib_private "${mpib[@]}"
	plugin_rows mpib_shared "${mpib[@]}" --memory sealed
	plugin_rows mpib_local --plugin "$plugin" --nodes "$dir/n2" \
		--ranks-per-node 2 --memory sealed
	plugin_rows mpib_local_private --plugin "$plugin" --nodes "$dir/n2" \
		--ranks-per-node 2
	mpib+=(--ranks-per-node 4)
	all_reduce ring_private "${mpib[@]}" --order block
	all_reduce ring_shared "${mpib[@]}" --order block --memory sealed
	all_reduce ring_private_far "${mpib[@]}"
	all_reduce ring_shared_far "${mpib[@]}" --memory sealed
	wanted noop || return 0
	timeout 60 "$b/bench-roundtrip" "$dir/n0" >"$dir/peer" || return
	emit noop rtt "$(awk '$1 == "rtt" { print $2 }' "$dir/peer")"
	latency noop
}

# NCCL's net_ib finds the software HCA because the drop-in library has
# libibverbs' name; it has one device.
as_peer() {
	MPIB_SOFT_DEVICES=soft0=$net.100.1 NCCL_SOCKET_IFNAME=lo \
		LD_LIBRARY_PATH=$build/runtime/softverbs/dropin \
		NCCL_IB_MERGE_NICS=0 NCCL_GIN_TYPE=2 "$@"
}

# eight ROW OPTION...: a ring and an all-to-all of the sizes in eight_sizes,
# after as many untimed iterations as in all_reduce().
eight() {
	local row=$1 pattern
	shift
	wanted "$row" || return 0
	for pattern in ring alltoall; do
		run_perf "$row" "$@" --pin --pattern "$pattern" --min 64K --max 16M \
			--factor 4 --iters 5 --warmup 40 || return
		while read -r size key v; do
			[ "$key" = busbw ] && emit "$row" "$pattern@$size" "$v"
		done <"$dir/rows"
	done
}

measure_peer() {
	local mpib=(--plugin "$plugin" --nodes "$dir/n0,$dir/n1"
		--ranks-per-node 4 --order block)

	[ -n "$peer" ] || return 0
	as_peer plugin_rows peer --plugin "$peer" --ranks-per-node 2
	eight eight_private "${mpib[@]}"
	as_peer eight eight_peer --plugin "$peer" --ranks-per-node 8
	eight eight_shared "${mpib[@]}" --memory sealed
}

measure_plugins() {
	local i
	for i in "${!plugins[@]}"; do
		plugin_rows "plugin$i" --plugin "${plugins[$i]}" \
			--ranks-per-node 2 "${env[@]}"
		all_reduce "ring_plugin$i" --plugin "${plugins[$i]}" \
			--ranks-per-node 8 "${env[@]}"
	done
	[ -n "$socket" ] || return 0
	plugin_rows nccl_socket --plugin "$socket" --ranks-per-node 2 "${env[@]}"
	all_reduce ring_socket --plugin "$socket" --ranks-per-node 8 "${env[@]}"
}

latency() {
	awk '/^lat_p/ { sub(/lat_p/, ""); sub(/^999/, "99.9"); print }' \
		"$dir/peer" | while read -r q v; do
		emit "$1" "lat@$q" "$v"
	done
}

measure_tcp() {
	local how=$1 size
	wanted "tcp_$how" || return 0
	for size in "${sizes[@]}"; do
		timeout 60 "$b/bench-tcp" "$how" "$size" "$bytes" \
			>"$dir/peer" || return
		emit "tcp_$how" "bw@$size" "$(awk '$1 == "bw" { print $2 }' "$dir/peer")"
		[ "$size" -eq 524288 ] &&
			emit "tcp_$how" cpu "$(awk '$1 == "cpu" { print $2 }' "$dir/peer")"
	done
	case $how in block | spin) ;; *) return ;; esac
	timeout 60 "$b/bench-tcp" "$how" lat 10000 >"$dir/peer" || return
	latency "tcp_$how"
}

# The same all-reduce over TCP; a rank yields its core when nothing moves.
measure_tcp_ring() {
	local size
	wanted tcp_yield || return 0
	for size in "${ring_sizes[@]}"; do
		timeout 60 "$b/bench-ring" 8 "$size" 3 >"$dir/peer" || return
		emit tcp_yield "ring@$size" \
			"$(awk '$1 == "busbw" { print $2 }' "$dir/peer")"
	done
}

measure_memory() {
	wanted memory || return 0
	timeout 60 "$b/bench-memory" >"$dir/peer" || return
	while read -r metric v; do
		case $metric in
		hot) emit memcpy_hot bw@524288 "$v" ;;
		cold) emit memcpy_cold bw@67108864 "$v" ;;
		crossed) emit memcpy_crossed bw@524288 "$v" ;;
		crossed_cpu) emit memcpy_crossed cpu "$v" ;;
		esac
	done <"$dir/peer"
}

measure_rings() {
	wanted rings || return 0
	timeout 60 "$b/bench-rings" >"$dir/peer" || return
	while read -r metric v; do
		emit "ring_${metric%_*}" "${metric#*_}" "$v"
	done <"$dir/peer"
}

port() {
	echo $((20000 + RANDOM % 10000))
}

# ucx TLS TEST SIZE ITERATIONS [OPTION]...: run UCX's test. Its last line goes
# to $dir/peer, the CPU seconds of both processes to $cpu.
ucx() {
	local p TIMEFORMAT='%U %S'
	p=$(port)
	export UCX_TLS=$1 UCX_WARN_UNUSED_ENV_VARS=n
	unset UCX_NET_DEVICES
	[ "$1" = tcp ] && export UCX_NET_DEVICES=lo
	shift
	{ time {
		timeout 60 taskset -c "${bench_cpus[0]}" \
			ucx_perftest -p "$p" -f >/dev/null 2>&1 &
		sleep 0.2
		timeout 60 taskset -c "${bench_cpus[1]}" ucx_perftest 127.0.0.1 -p "$p" -t "$1" -s "$2" \
			-n "$3" -w 100 -f "${@:4}" >"$dir/ucx" 2>/dev/null
		wait $!
	}; } 2>"$dir/time"
	cpu=$(awk '{ print $1 + $2 }' "$dir/time")
	tail -n 1 "$dir/ucx" >"$dir/peer"
}

measure_ucx() {
	local row=$1 tls=$2 size n full q
	[ -n "$ucx" ] && wanted "$row" || return 0
	for size in "${sizes[@]}"; do
		n=$((total / size + 1))
		ucx "$tls" tag_bw "$size" "$n"
		emit "$row" "bw@$size" "$(awk 'NF >= 6 { print $6 * 1.048576e-3 }' \
			"$dir/peer")"
		[ "$size" -eq 524288 ] || continue
		full=$cpu
		# Leave out the CPU time of starting and ending.
		ucx "$tls" tag_bw "$size" 1
		emit "$row" cpu "$(awk -v f="$full" -v i="$cpu" \
			-v gb="$((n * size))e-9" 'BEGIN { print (f - i) / gb }')"
	done
	for q in 50 90 99 99.9; do
		ucx "$tls" tag_lat 8 10000 -R "$q"
		emit "$row" "lat@$q" "$(awk 'NF >= 6 { print $2 }' "$dir/peer")"
	done
}

# One message at a time, back and forth: not a stream, so not comparable by
# bandwidth.
measure_fabric() {
	local row=$1 size n p
	[ -n "$fabric" ] && wanted "$row" || return 0
	for size in 8 "${sizes[@]}"; do
		n=$((size == 8 ? 5000 : total / size / 4 + 1))
		p=$(port)
		timeout 60 taskset -c "${bench_cpus[0]}" fi_pingpong -p "$2" -e rdm -B "$p" -S "$size" \
			-I "$n" >/dev/null 2>&1 &
		sleep 0.3
		timeout 60 taskset -c "${bench_cpus[1]}" fi_pingpong -p "$2" -e rdm -P "$p" -S "$size" \
			-I "$n" 127.0.0.1 2>/dev/null | tail -n 1 >"$dir/peer"
		wait $!
		if [ "$size" -eq 8 ]; then
			emit "$row" lat@50 "$(awk '{ print $7 }' "$dir/peer")"
		else
			emit "$row" "bw@$size" "$(awk '{ print $6 / 1e3 }' "$dir/peer")"
		fi
	done
}
