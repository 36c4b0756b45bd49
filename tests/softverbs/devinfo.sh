#!/usr/bin/env bash
# devinfo.sh LIBRARY: check that ibv_devinfo shows the devices of
# MPIB_SOFT_DEVICES, and that the error for a wrong value names the variable.
set -uo pipefail
lib=$1
. "$(dirname "$0")/../support/addr.sh"
. "$(dirname "$0")/common.sh"
need ibv_devinfo ibverbs-utils

devinfo() {
	LD_PRELOAD=$preload timeout 60 ibv_devinfo "$@" 2>&1
}

expect() {
	grep -qE "$1" <<<"$out" && return
	echo "$out"
	echo "does not show: $1"
	exit 1
}

out=$(devinfo -v) || exit 1
expect "^hca_id:.soft0$"
expect "^hca_id:.soft1$"
expect "state:.*PORT_ACTIVE"
expect "link_layer:.*Ethernet"
expect "max_qp_wr:.*32768"
expect "atomic_cap:.*ATOMIC_NONE"
expect "GID\[ *0\]:.*fe80:[0-9a-f:]*, RoCE v1"
expect "GID\[ *1\]:.*::ffff:$net\.2, RoCE v2"

export MPIB_SOFT_DEVICES=soft0=$net.1,soft1
out=$(devinfo) && exit 1
expect 'MPIB_SOFT_DEVICES: "soft1": wants NAME=IPv4'

export MPIB_SOFT_DEVICES=soft0=$net.1,soft0=$net.2
out=$(devinfo) && exit 1
expect 'names a device twice'

# Use an address that is in none of this machine's networks.
export MPIB_SOFT_DEVICES=far=192.0.2.1
out=$(devinfo) && exit 1
expect 'far: cannot open 192.0.2.1: .*MPIB_SOFT_DEVICES'

export MPIB_SOFT_DEVICES=
out=$(devinfo) && exit 1
expect 'No IB devices found'

unset MPIB_SOFT_DEVICES
out=$(devinfo -l) || exit 1
expect 'soft0'
