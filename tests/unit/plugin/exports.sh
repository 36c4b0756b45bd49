#!/usr/bin/env bash
# exports.sh PLUGIN
#
# The plugin exports the five tables and nothing else, and the loader never
# unmaps it.
set -euo pipefail
wanted=$(printf 'ncclNetPlugin_v%s\n' 10 11 12 8 9)
found=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
diff <(echo "$wanted") <(echo "$found") || {
	echo "exports differ: wanted left, found right"
	exit 1
}
readelf -d "$1" | grep -q NODELETE || {
	echo "not marked nodelete: NCCL would unload it under its threads"
	exit 1
}
