#!/usr/bin/env bash
# Check that a soak continues after the last seed of its file, adds up all
# lines, and lists the seeds that failed. This test makes seeds fail by
# --suspect. An interrupted batch of seeds must not add a line to the file.
set -euo pipefail
CDPATH='' cd "$(dirname "$0")"
. ../support/workdir.sh
. ../support/lines.sh
file=$dir/soak

out=$(./soak "$file" --from 1795700000034 --seeds 2 --messages 20) || fail "soak: $out"
has '^2 seeds from 1795700000034 in 1 batches: 0 failed' <<<"$out" || fail "the first: $out"
# --from has no effect, since the file is not new.
if out=$(./soak "$file" --from 1 --seeds 3 --messages 20 --suspect 'port down' \
	2>"$dir/said"); then
	fail "the failed seeds are not listed: $out"
fi
lost=$(grep -c '^# seed 179570000003[678] failed$' "$file") || true
[ "$lost" -gt 0 ] || fail "no seed is named: $(cat "$file")"
has "^5 seeds from 1795700000034 in 2 batches: $lost failed; [1-9]" <<<"$out" ||
	fail "the sum: $out"
awk '!/^#/ { if (NF != 7 || $3 < 1 || $4 < 1 || $7 <= 0) exit 1; firsts = firsts " " $2 }
	END { if (firsts != " 1795700000034 1795700000036") exit 1 }' "$file" || fail "lines: $(cat "$file")"
was=$(cat "$file")
if ./soak "$file" --seeds 1 --no-such-option >/dev/null 2>&1; then
	fail "an unknown option is accepted"
fi
[ "$(cat "$file")" = "$was" ] || fail "a batch that did not run counts"
# If --from is not a whole number, tests/sim/run must fail. It must not read
# 1.7957e+12 as 1.
rc=0
./run --from 1.7957e+12 --seeds 1 --messages 20 2>"$dir/said" >/dev/null || rc=$?
{ [ $rc -eq 2 ] && has '"1.7957e+12" is not 0' <"$dir/said"; } ||
	fail "--from 1.7957e+12: exit status $rc, $(cat "$dir/said")"
exit "$failed"
