#!/usr/bin/env bash
# own.sh LIBRARY PROGRAM [options...]
#
# Run PROGRAM, a test of this project, on the provider that calls libibverbs.
# LIBRARY, the softverbs library, is preloaded. This tests the provider, and the
# engine on top of it, without an HCA.
set -uo pipefail
lib=$1
shift
. "$(dirname "$0")/../support/addr.sh"
. "$(dirname "$0")/common.sh"
export MPIB_SOFT_DEVICES=$MPIB_SOFT_DEVICES,soft2=$net.3,soft3=$net.4
export MPIB_TEST_RAIL_A=rdma:soft0:1 MPIB_TEST_RAIL_B=rdma:soft1:1
export MPIB_TEST_RAILS="rdma:soft0:1,rdma:soft2:1 rdma:soft1:1,rdma:soft3:1"
LD_PRELOAD=$preload exec "$@"
