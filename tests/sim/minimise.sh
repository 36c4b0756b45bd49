#!/usr/bin/env bash
# Check that --minimise keeps only those parts of a plan that cause the failure.
# The plan of seed 34 has several kinds of faults. With --suspect KIND, the seed
# fails if a fault of this kind happens. Without --suspect the seed does not
# fail, and --minimise must report this.
set -euo pipefail
run=$(dirname "$0")/run
out=$("$run" --seed 34 --messages 200 --minimise --suspect 'port down' 2>&1)
small=${out#*the smallest plan that fails:}
fail() {
	echo "$1: $small"
	exit 1
}
[ "$small" != "$out" ] || fail "nothing was made smaller"
grep -q '^  fault [0-9]*: port down' <<<"$small" || fail "the fault is gone"
[ "$(grep -c '^  fault' <<<"$small")" = 1 ] || fail "other faults are left"
grep -q '^  line' <<<"$small" && fail "messages are left"
grep -q 'FOUND: port down happened' <<<"$small" || fail "it does not fail"
if out=$("$run" --seed 34 --messages 200 --minimise 2>&1); then
	echo "a seed that does not fail was minimised: $out"
	exit 1
fi
[ "$out" = "seed 34 does not fail" ]
