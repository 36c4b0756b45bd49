#!/usr/bin/env bash
# proxy.sh LIBRARY PROXY: check what mpib-proxy prints about its RDMA rails at
# start, and its exit status if it cannot use the rails.
set -uo pipefail
lib=$1 proxy=$2
. "$(dirname "$0")/../support/scratch.sh"
. "$(dirname "$0")/common.sh"

start() {
	LD_PRELOAD=$preload "$proxy" --config /dev/null --run-dir "$dir/run" \
		--peer-addr "$net.1" "$@" >"$dir/out" 2>"$dir/log" &
	pid=$!
}

expect() {
	grep -qF -- "$1" "$dir/log" "$dir/out" && return
	cat "$dir/log" "$dir/out"
	echo "the proxy does not print: $1"
	exit 1
}

refused() {
	local status=$1 rc
	shift
	start "$@"
	wait "$pid"
	rc=$?
	[ "$rc" = "$status" ] && return
	cat "$dir/log"
	echo "exit status $rc, not $status: $*"
	exit 1
}

refused 78 --sout rdma:mlx5_7
expect "rdma:mlx5_7:1: ibv_open_device: No such device (no RDMA device has\
 this name; there are soft0, soft1)"
refused 78 --sout rdma:soft0:2
expect "rdma:soft0:2: ibv_query_port: Invalid argument (the device has no such"
refused 78 --sout rdma:soft0 --qp-sq-depth 16384 --srq-high 32768 \
	--qp-pkey-index 9
expect "soft0: qp.pkey_index = 9 is beyond the port's"
refused 78 --sout rdma:soft0 --sup rdma:soft0
expect "both rails are"

start --sout rdma:soft0 --sup rdma:soft1 --gid-net "$net.0/24"
await_ready "$dir/out" "$pid"
expect "SOUT rdma:soft0:1 SUP rdma:soft1:1"
expect "rail SOUT rdma:soft0:1: active, Ethernet, 40 Gb/s, MTU 4096, GID 1\
 ::ffff:$net.1 (RoCE v2)"
expect "rail SUP rdma:soft1:1: active"
kill -TERM "$pid"
wait "$pid" || { cat "$dir/log"; echo "it did not end well"; exit 1; }
