#!/usr/bin/env bash
# exports.sh PLUGIN: check that the plugin exports exactly the five function
# tables of NCCL's interface, and that dlclose() does not unload the plugin,
# since a thread of NCCL may still use it.
. "$(dirname "$0")/../support/lines.sh"
want=$(printf 'ncclNetPlugin_v%s\n' 8 9 10 11 12 | sort)
got=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
if [ "$want" != "$got" ]; then
	echo "the plugin exports:"
	echo "$got"
	exit 1
fi
readelf -d "$1" | has NODELETE || {
	echo "not linked with -z nodelete"
	exit 1
}
readelf -d "$1" | grep -E 'NEEDED.*(ibverbs|uring)' && exit 1
exit 0
