# shellcheck shell=bash
# Sourced by run. Each case is a function case_NAME. A case sets NCCL's
# environment variables in its own subshell. Cases use these functions of run:
#
#   nodes [proxy options]   start two proxies; with faults=1 devices can be lost
#   machine GPUS LINKS      use a topology with GPUS per node, see topology.sh
#   ranks N ARGUMENT...     run nccl-rank with N ranks per node
#   spy                     count NCCL's calls; a case can require some:
#                           grouped N, exported, flushed
#   skip WHY                end the case as skipped
#   says FILE PATTERN       check that $dir/FILE has a matching line
#   used BYTES              check that the rails moved this many bytes
#
# Without `machine`, ranks can reach each other only over the network.

# Run every collective with 8 bytes to 4 MiB.
by_protocol() {
	export NCCL_PROTO=$1
	nodes
	ranks "$2" --max 4M --times "${3:-2}" collectives && used 20M
}
case_simple() { by_protocol Simple 1; }
case_ll() { by_protocol LL 1; }
case_ll128() { by_protocol LL128 1; }
case_simple_4() { by_protocol Simple 2; }
case_ll_4() { by_protocol LL 2; }
case_ll128_4() { by_protocol LL128 2; }
case_simple_8() { by_protocol Simple 4 1; }
case_ll128_8() { by_protocol LL128 4 1; }
case_large() {
	export NCCL_PROTO=Simple
	nodes
	ranks 1 --max 64M --times 1 collectives && used 600M
}

# Do the same with device memory that is exported as dma-bufs.
by_dmabuf() {
	export NCCL_PROTO=$1
	nodes --dmabuf yes
	machine "$2" 0
	spy
	ranks "$2" --max 4M --times 2 collectives && used 20M && exported
}
case_dmabuf_simple() { by_dmabuf Simple 1; }
case_dmabuf_ll() { by_dmabuf LL 1; }
# Poll the lines without pauses, to detect a flag that arrives before its data.
watched() {
	export STANDIN_SPIN=1
	by_dmabuf LL128 "$1"
}
case_dmabuf_ll128() { watched 1; }
case_dmabuf_ll128_4() { watched 2; }
# Simulate a GPU (SM 80) that needs a flush before it can read received data.
case_flush() {
	export STANDIN_SM=80
	by_dmabuf Simple 1 && flushed
}

# Let NCCL select the version of the plugin's table, and check which version it
# selects.
case_table() {
	local abi=v12
	[[ $version == 2.28.* ]] && abi=v11
	nodes
	ranks 1 --max 64K collectives && used 1M &&
		says rank.log "MPIB \\($abi\\)"
}

# Check that NCCL's example profiler gets events of the rails, each with a start
# and a stop.
case_profiler() {
	[[ $version == 2.28.* ]] &&
		skip "the example of NCCL $version crashes over Socket, too"
	export NCCL_PROFILER_PLUGIN=$nccl/profiler.so
	export NCCL_PROFILE_EVENT_MASK=4095 NCCL_PROFILE_DUMP_FILE=$dir/trace
	nodes
	# Send little, since the profiler stores only the first few events.
	ranks 1 --min 1M --max 1M --times 1 collectives || return 1
	cat "$dir"/trace*.json | tr -d '{},"' | awk '
		function of(key,   i) {
			for (i = 1; i < NF; i++)
				if ($i == key)
					return $(i + 1)
		}
		/name: Qp/ && of("ph:") == "b" {
			n++
			begin = of("ts:")
			bytes += of("size:")
		}
		/name: Qp/ && of("ph:") == "e" && of("ts:") < begin { wrong++ }
		END {
			print n + 0, "events of", bytes + 0, "bytes,", wrong + 0,
				"of them end before they begin"
			exit !n || wrong || bytes < 100000
		}'
}

# Run an all-to-all. In the pxn cases, the connections of one rank serve all
# ranks of its node, so one receive has several messages.
case_alltoall() {
	nodes
	ranks 2 --max 4M --times 5 alltoall && used 20M
}
pxn() {
	nodes --dmabuf yes
	machine "$1" 1
	spy
	export NCCL_P2P_LEVEL=NVL
}
case_pxn_2() {
	pxn 2
	ranks 2 --max 4M --times 10 alltoall && used 20M && grouped 2
}
case_pxn_4() {
	pxn 4
	ranks 4 --max 1M --times 10 alltoall && used 20M && grouped 4
}
case_pxn_staged() {
	export STANDIN_DMABUF=0
	pxn 4
	ranks 4 --max 1M --times 10 alltoall && used 20M
}
case_pxn_queued() {
	pxn 4
	ranks 4 --times 40 queued && grouped 4
}
case_pxn_ragged() {
	pxn 4
	ranks 4 --max 600K --times 40 ragged && grouped 2
}
case_pxn_collectives() {
	pxn 2
	ranks 2 --max 4M collectives && used 20M
}
case_pxn_own_comms() {
	export NCCL_NET_SHARED_COMMS=0
	pxn 2
	ranks 2 --max 1M --times 10 alltoall && used 4M
}
case_pxn_own_buffers() {
	export NCCL_NET_SHARED_BUFFERS=0
	pxn 2
	ranks 2 --max 1M --times 10 alltoall && used 4M
}

# Run NCCL's own unmodified net_ib on the software HCA. net_ib loads the drop-in
# library by its name and sees only the software devices.
net_ib() {
	local n=$1 node device list
	local args=()
	shift
	export NCCL_NET=IB NCCL_NET_PLUGIN=none
	export LD_LIBRARY_PATH=$build/runtime/softverbs/dropin
	[ -e "$LD_LIBRARY_PATH/libibverbs.so" ] || skip "no software libibverbs" \
		"in $LD_LIBRARY_PATH: configure with -DMPIB_SOFTVERBS=ON"
	# Since no device is an mlx5 device, NCCL 2.28.9 would call a function
	# at address -1.
	[[ $version == 2.28.* ]] && export NCCL_GIN_TYPE=2
	for node in 0 1; do
		list=soft0=$net.$((nodes_set * 4 + node * 2 + 1))
		[ "${devices:-1}" -eq 2 ] &&
			list+=,soft1=$net.$((nodes_set * 4 + node * 2 + 2))
		args+=(--env "$node:MPIB_SOFT_DEVICES=$list")
	done
	ranks "$n" "${args[@]}" "$@" &&
		says rank.log "NET/IB : Using .*soft0:1/RoCE"
}
case_net_ib() { net_ib 1 --max 4M --times 2 collectives; }
case_net_ib_ll() {
	export NCCL_PROTO=LL
	net_ib 1 --max 1M --times 2 collectives
}
case_net_ib_ll128() {
	export NCCL_PROTO=LL128 STANDIN_SPIN=1
	net_ib 1 --max 4M --times 2 collectives
}
# Do not let NCCL merge devices: it would merge two devices without a PCI
# address into a device that has no path in the topology.
case_net_ib_two_devices() {
	export NCCL_IB_MERGE_NICS=0
	devices=2 net_ib 1 --max 4M --times 2 collectives
}
case_net_ib_alltoall() { net_ib 2 --max 1M --times 5 alltoall; }
case_net_ib_communicators() { net_ib 2 communicators; }

# Tests of communicators.
case_communicators() {
	nodes
	ranks 2 communicators
}
case_pxn_communicators() {
	pxn 2
	ranks 2 communicators
}
case_rerun() {
	nodes
	ranks 1 --times 5 rerun
}
case_registered() {
	nodes --dmabuf yes
	machine 1 0
	spy
	ranks 1 --max 8M --times 3 registered && used 20M && exported
}
case_abort() {
	nodes
	ranks 2 --limit 20 abort
}

# Faults that NCCL must not notice.
case_drain() {
	nodes
	ranks 2 --max 4M --times 20 loop --during \
		"$ctl -s $dir/n0 rails drain SUP && sleep 1 &&
		$ctl -s $dir/n0 rails resume SUP"
}
case_rail_lost() {
	faults=1 nodes --failover-hold-down 200
	ranks 2 --max 4M --times 20 loop --during \
		"echo gone >$MPIB_SOFT_FAULTS/${sup[1]}; sleep 1
		rm $MPIB_SOFT_FAULTS/${sup[1]}; sleep 2" &&
		says proxy1.log "$(echo "${sup[1]}" | sed 's/\./[.]/g')"
}
case_rail_lost_sout() {
	faults=1 nodes --failover-hold-down 200
	ranks 1 --max 4M --times 20 loop --during \
		"echo gone >$MPIB_SOFT_FAULTS/${sout[0]}; sleep 1
		rm $MPIB_SOFT_FAULTS/${sout[0]}; sleep 2"
}

# Each second, kill a proxy and start it again.
falling() {
	nodes --resume-grace 300 "$@"
	may_die=1
	nodes_fall &
	falls=$!
}
case_proxies_fall() {
	falling
	ranks 2 --max 4M loop --during "sleep 10"
}
case_proxies_fall_alltoall() {
	falling
	ranks 2 --max 4M --times 3 alltoall
}
case_proxies_fall_communicators() {
	falling
	ranks 2 communicators
}
case_proxies_fall_dmabuf() {
	falling --dmabuf yes
	machine 1 1
	ranks 1 --max 4M --times 2 collectives
}

# Faults that NCCL must report soon, on every remaining rank.
case_rank_killed() {
	nodes
	ranks 2 --max 4M --limit 20 --kill 1 --expect-error loop
}
case_proxy_killed() {
	nodes --resume-grace 0
	may_die=1
	ranks 2 --max 4M --limit 20 --expect-error loop --during \
		"kill -9 ${pids[1]}"
}
case_peer_proxy_ended() {
	nodes --resume-grace 0
	may_die=1
	ranks 2 --max 4M --limit 20 --expect-error loop --during \
		"kill -TERM ${pids[0]}"
}
case_both_rails_lost() {
	faults=1 nodes --failover-grace 1000 --resume-grace 1
	may_die=1
	ranks 2 --max 4M --limit 20 --expect-error loop --during \
		"echo gone | tee $MPIB_SOFT_FAULTS/${sup[1]} $MPIB_SOFT_FAULTS/${sout[1]}"
}
