#!/usr/bin/env bash
# Run new seeds for 30 s. Store the seeds that fail in build/tests/sim/failed.
# Every later run starts with the stored seeds. If one of them still fails, the
# script runs no new seeds.
set -euo pipefail
CDPATH='' cd "$(dirname "$0")"
kept=${MPIB_SIM:-../../build/tests/sim/sim}
kept=$(dirname "$kept")/failed
rc=0
if [ -s "$kept" ]; then
	while read -r seed; do
		./run --seed "$seed" >/dev/null || rc=1
	done <"$kept"
	[ "$rc" -eq 0 ] || exit 1
	rm "$kept"
fi
. ../support/workdir.sh
./run --fresh --seeds 1000000 --seconds 30 2>"$dir/said" || rc=1
cat "$dir/said" >&2
sed -n 's/^seed \([0-9]*\) failed.*/\1/p' "$dir/said" >"$kept"
exit $rc
