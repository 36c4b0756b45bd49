#!/usr/bin/env bash
# table.sh TABLE: check the table that the script TABLE prints from the logs of
# attacks. Each successful attack must have a row, even if its victim made no
# report or the attack ended the program. Each ratio must compare the p99 of two
# victims of the same round.
table=$1
. "$(dirname "$0")/../support/workdir.sh"

# log NAME LINE...: write a log with these lines, as a cmocka program and a
# victim would print them.
log() {
	local name=$1
	shift
	printf '%b\n' "$@" >"$dir/$name"
}
# victim P99 MESSAGES: print a victim's report.
victim() {
	printf 'the victim: p99 %d us\nthe victim: %d messages, 2 attaches, 0 wrong' "$@"
}
run='[ RUN      ]' ok='[       OK ]' failed='[  FAILED  ]'

# Each test has a victim. Test a_b also has a second victim, which
# victim_newcomer() starts for a short time, and which reports no p99.
for round in 0 1 2; do
	log each.$round.here "$run a_b" "the victim: 7 messages, 1 attaches, 0" \
		"$(victim $((200 + 200 * round)) $((1000 + round)))" "$ok a_b" \
		"$run c" "[  SKIPPED ] c"
	log each.$round.elsewhere "$run a_b" "$(victim 200 9)" "$ok a_b"
done
# The program has only one victim, which reports at the end.
log all.0.here "$run d" "$failed d" "$run e" "$ok e" "$(victim 300 30)" \
	"$failed 1 test(s), listed below:" "$failed d"
log all.0.elsewhere "$run d" "$ok d" "$run e" "$ok e" "$(victim 100 30)"
# In the second test, the victim does not report. In the third test, the program
# crashes.
log ends.0.here "$run f" "$(victim 100 10)" "$ok f" "$run g" "$failed g" "$run h"
log ends.0.elsewhere "$run f" "$(victim 100 10)" "$ok f"
log alone.0.here "$run i" "$(victim 100 10)" "$failed i"
: >"$dir/alone.0.elsewhere"
cat >"$dir/want" <<'END'

| attack | outcome | messages | attaches | p99, times that elsewhere | ms |
| --- | --- | --- | --- | --- | --- |
| `each`: a b | nothing | 1001 | 2 | 2.0 [1.0–3.0] | 0.40 of 0.20 |
| `all`: 2 attacks | **GOT THROUGH** | 30 | 2 | 3.0 [3.0–3.0] | 0.30 of 0.10 |
| `ends`: f | nothing | 10 | 2 | 1.0 [1.0–1.0] | 0.10 of 0.10 |
| `ends`: g | **GOT THROUGH** | 0 | 0 | - | - |
| `ends`: h | **GOT THROUGH** | 0 | 0 | - | - |
| `alone`: i | **GOT THROUGH** | 10 | 2 | - | - |
END
perl "$table" "$dir"/each.?.here "$dir"/{all,ends,alone}.0.here >"$dir/got" &&
	diff "$dir/want" "$dir/got"
