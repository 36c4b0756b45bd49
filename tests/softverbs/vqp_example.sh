#!/usr/bin/env bash
# vqp_example.sh LIBRARY BUILD SOURCE [SANITIZER]: run the example of
# mpib-vqp(3) on the software HCA. Run two binaries: the example of this build,
# and one that is compiled with the flags of pkg-config against the installed
# files, as in other projects.
set -uo pipefail
lib=$1 build=$2 source=$3
. "$(dirname "$0")/../support/scratch.sh"
. "$(dirname "$0")/common.sh"

# The example has four runs. In the last run, a QP fails.
judge() {
	LD_PRELOAD=$preload timeout 60 "$1" soft0,soft1 1 8 100001 4096 200 \
		>"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
	[ "$(awk '{ print $1 }' "$dir/out" | paste -sd ' ')" = \
		"SPLIT SPRAY DQPLB broken" ] || { cat "$dir/out"; exit 1; }
}

judge "$build/docs/example/mpib-vqp"
if ! command -v pkg-config >/dev/null || [ "${4:-}" ]; then
	echo "SKIPPED: building it by pkg-config: ${4:-there is none}"
	exit 77
fi
DESTDIR=$dir/root cmake --install "$build" --component dev >"$dir/out" ||
	{ cat "$dir/out"; exit 1; }
pc=$(find "$dir/root" -name mpib-vqp.pc)
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs mpib-vqp) ||
	exit 1
[[ $flags == *$dir/root* ]] || { echo "those are others' flags: $flags"; exit 1; }
# shellcheck disable=SC2086
${CC:-cc} -std=gnu11 -Wall -Werror -o "$dir/mpib-vqp" \
	"$source/docs/example/vqp.c" $flags || exit 1
judge "$dir/mpib-vqp"
