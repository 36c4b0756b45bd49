#!/usr/bin/env bash
# tally.sh TALLY: compare the medians, ranges and marks (required limits) of
# TALLY with values computed by hand. A ratio compares two values of the same
# repetition, not two medians. A mark without measurements counts as not
# measured.
tally=$1
. "$(dirname "$0")/../../support/workdir.sh"
printf '%s\n' '0 a bw@512 5' '1 a bw@512 6' '2 a bw@512 4' '3 a bw@512 7' \
	'0 b bw@512 1' '1 b bw@512 3' '2 b bw@512 4' '0 a lat 2.5' \
	'0 b cpu 0.000' >"$dir/s"
printf '%b\n' 'title\tT' 'column\tbw@512\tGB/s\t1' 'column\tlat\tus' \
	'row\ta\tRow A' 'row\tb\tRow B' \
	'mark\tA by B\t>=\t2.1\ta\tbw@512\tb\tbw@512' \
	'mark\tA\t<=\t6\ta\tbw@512' 'mark\tnone\t>=\t0\tz\tlat' \
	'mark\tby 0\t>=\t0\ta\tlat\tb\tcpu' \
	'note\tN' >"$dir/l"
perl "$tally" "$dir/l" "$dir/s" >"$dir/got" || exit 1
cat >"$dir/want" <<'END'
T

| | GB/s | us |
|---|---|---|
| Row A | 5.5 [4.0–7.0] | 2.50 |
| Row B | 3.0 [1.0–4.0] | - |

| mark | want | is | |
|---|---|---|---|
| A by B | >= 2.1 | 2.000 [1.000–5.000] | does not hold |
| A | <= 6 | 5.500 [4.000–7.000] | holds |
| none | >= 0 | - | not measured |
| by 0 | >= 0 | - | not measured |

N
END
diff "$dir/want" "$dir/got" || exit 1
! perl "$tally" "$dir/l" "$dir/s" >/dev/full 2>"$dir/got" || exit 1
grep -q 'cannot write' "$dir/got" || exit 1
echo '0 a bw' >>"$dir/s"
! perl "$tally" "$dir/l" "$dir/s" >"$dir/got" 2>&1 || exit 1
grep -q 'not a sample' "$dir/got"
