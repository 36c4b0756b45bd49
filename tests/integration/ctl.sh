#!/usr/bin/env bash
# ctl.sh BUILD: check what scripts need from mpibctl: fields as CSV, errors as
# JSON, repeated tables, uncut lines in a pipe, help for one noun, completion.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
long=$(for uid in {1001..1012}; do printf 'uid=%s:weight=5,' "$uid"; done)
pair_start --share-rules "${long%,}"
pair_traffic 2

# mpibctl must confirm a change, and must say so if a result is empty.
is() {
	[ "$1" = "$2" ] || fail "\"$1\", not \"$2\""
}
is "$(ctl rails drain SUP)" "rail SUP, drained"
is "$(ctl rails drain SUP cable 17 is bad)" \
	"rail SUP, drained, because cable 17 is bad"
ctl rails | has '^SUP .* drained: cable 17 is bad' || fail "$(ctl rails)"
ctl cluster | has 'drained because: cable 17 is bad' || fail "$(ctl cluster)"
is "$(ctl rails resume SUP)" "rail SUP, not drained"
is "$(ctl rails -o drain_why | xargs)" ''
# Show jobs and hanging requests of all nodes.
ctl cluster jobs | has -E '^JOB .*NODES' || fail "$(ctl cluster jobs)"
ctl cluster jobs -o nodes | has -x 2 || fail "$(ctl -j cluster jobs)"
is "$(ctl cluster stuck | tail -n 1)" "(none)"

# json_error STATUS TEXT ARGUMENT...
json_error() {
	local status=$1 text=$2 out rc
	shift 2
	out=$("$build/proxy/mpibctl" "$@" 2>"$dir/err")
	rc=$?
	[ "$rc" -eq "$status" ] && grep -q '"ok": false' <<<"$out" &&
		grep -q "\"status\": $status" <<<"$out" &&
		grep -q "\"error\": \".*$text" <<<"$out" && [ -s "$dir/err" ] ||
		fail "-j $*: $rc, $out"
}
json_error 3 'No such file' -j -s "$dir/nowhere" rails
json_error 2 'no such field' -j -s "$dir/n0" rails -o nope
json_error 2 'no noun' -j nonsense
json_error 2 'metrics are text' -j -s "$dir/n0" metrics
json_error 2 'rails, clients, conns' -j -s "$dir/n0" --rates config
json_error 1 'no client 999' -j -s "$dir/n0" clients kick 999
ctl nonsense 2>/dev/null | has . && fail "JSON without -j"

# A command with --watch ends when the process that reads its output ends, or
# when the proxy ends.
ctl --watch 1 rails 2>/dev/null | head -n 7 >"$dir/twice"
[ "$(grep -c '^RAIL ' "$dir/twice")" -eq 2 ] || fail "watch: $(<"$dir/twice")"
[ "$(grep -cE '^[0-9]{2}:[0-9]{2}:[0-9]{2}$' "$dir/twice")" -ge 2 ] ||
	fail "--watch prints no time: $(<"$dir/twice")"
ctl --watch 1 -j ping >/dev/null 2>&1
[ $? -eq 2 ] || fail "a command without a table is watched"
# If the reader of the output closes the pipe early, mpibctl must print no
# error, even if its parent (such as a service or Python) ignores SIGPIPE.
(
	trap '' PIPE
	{
		ctl --watch 1 rails
		echo "$?" >"$dir/status"
	} 2>"$dir/err" | head -n 1 >"$dir/one"
)
[ "$(<"$dir/status")" -eq 1 ] && [ ! -s "$dir/err" ] || fail "EPIPE: $(<"$dir/err")"
for n in 0 -1 x 3601 ''; do
	ctl --watch "$n" rails >/dev/null 2>&1
	[ $? -eq 2 ] || fail "--watch \"$n\" is taken"
done

# A command with --rates takes one second and reports how much the counters grew
# in that second.
moved() {
	ctl rails -o tx_bytes | awk '{ n += $1 } END { printf "%.0f\n", n }'
}
for _ in $(seq 100); do
	was=$(moved)
	rate=$(ctl -r rails -o tx_gbps |
		awk '{ n += $1 } END { printf "%.6f\n", n }')
	now=$(moved)
	# The command takes at least one second, so the rate cannot exceed the
	# bytes that moved during the command, divided by one second.
	awk -v r="$rate" -v n="$((now - was))" \
		'BEGIN { exit !(r > 0 && r * 1e9 / 8 <= n) }' && break
done || fail "rates: $rate Gb/s, of $((now - was)) bytes"
ctl rails -r | has 'TX Gb/s  RX Gb/s' || fail "rates"
# Without arguments mpibctl prints a summary. "mpibctl report" writes the output
# of all commands to a new file, and never overwrites a file.
[ "$(ctl | grep -cE '^(mpib-proxy |RAIL .*TX Gb/s|SOUT|SUP)')" -eq 4 ] ||
	fail "the summary is: $(ctl)"
ctl -j | has '"rails": \[' || fail "no JSON of the summary"
ctl report "$dir/report" >/dev/null || fail "no report"
for part in 'mpibctl rails --wide' 'mpibctl doctor' 'mpibctl config' 'uname -a'; do
	has "^== $part" <"$dir/report" || fail "the report lacks $part"
done
ctl report "$dir/report" >/dev/null 2>&1 && fail "a report is overwritten"
ctl clients --rates | has -E ' [0-9]+\.[0-9]{2} ' || fail "rates of clients"
ctl rails --wide | has 'PROVIDER .*MTU .*FAILOVERS' || fail "wide"
ctl rails --wide | has ' of 400 ' && fail "an expected speed without a setting"
ctl config | has 'uid=1012:weight=5' || fail "a pipe cuts lines"

ctl help rails | has 'rails drain RAIL' || fail "help of a noun"
ctl rails --help | has 'clients kick' && fail "help of a noun has the others"
[ "$(ctl help)" = "$(ctl --help)" ] || fail "help is not --help"
ctl help | has 'clients kick CLIENT' || fail "help lacks a command"

# Software rails are meant only for trials. "mpibctl doctor" accepts them, but
# not with --strict.
verdict=$(ctl doctor --strict)
[ $? -eq 1 ] || fail "doctor --strict: $verdict"
quiet=$(ctl doctor --strict --quiet)
[ $? -eq 1 ] || fail "doctor --strict --quiet"
[ "$(grep -cE '^(WARN|FAIL)  ' <<<"$quiet")" -ge 1 ] || fail "quiet: $quiet"
grep -qE '^(OK|NOTE)|^[0-9]+ ok,' <<<"$quiet" && fail "not quiet: $quiet"
ctl doctor >/dev/null || fail "doctor is strict without --strict"
ctl rails --strict 2>/dev/null
[ $? -eq 2 ] || fail "a strict table"
ctl config set hca.speed 400 >/dev/null || fail "config set hca.speed"
[ "$(ctl rails -o expected_mbps | sort -u)" = 400000 ] || fail "expected speed"

# The share rules can be removed while the proxy runs.
rules() {
	ctl config -o section,key,value | sed -n 's/^share\trules\t//p'
}
ctl config set share.rules uid=4711:weight=20 >/dev/null || fail "config set share.rules"
is "$(rules)" uid=4711:weight=20
ctl config set share.rules '' >/dev/null || fail "the rules are not removed"
is "$(rules)" ''
ctl events '' >/dev/null || fail "an empty word that limits nothing"
ctl config set limit.readers '' 2>"$dir/err" && fail "an empty number is accepted"
has 'limit.readers = "" is not a number' <"$dir/err" || fail "$(<"$dir/err")"

# A command that the proxy refuses must change nothing and must name the reason
# and a remedy. refused TEXT ARGUMENT...
refused() {
	local text=$1
	shift
	ctl "$@" >/dev/null 2>"$dir/err" && fail "$* is accepted"
	has -F "$text" <"$dir/err" || fail "$*: $(<"$dir/err")"
}
refused 'run.dir cannot change while the proxy runs (change mpib.conf and restart the proxy)' \
	config set run.dir /x
refused 'there is no setting "sup.bv" (did you mean sup.bw?)' config set sup.bv 1
refused 'sup.bw has an effect in static mode only (restart' config set sup.bw 1
refused 'log.level = "loud" is not one of its values (give error, warn, info, debug)' \
	config set log.level loud
refused 'quota.fds = 3 is less than the 6 that a process with a region needs (raise it, or set 0)' \
	config set quota.fds 3
refused 'quota.messages = "4611686018427387904" is out of range (give 0 to 1000000000)' \
	config set quota.messages 4611686018427387904
refused 'there is no rail "EAST" (rails lists them)' rails drain EAST
is "$(ctl config -o section,key,value | sed -n 's/^quota\tfds\t//p')" 16384

# A number must have only digits. A connection must be two numbers.
for word in -1 x 1x +1 99999999999999999999; do
	refused "\"$word\" is not a whole number from 0 to " events -- "$word"
done
ctl history 60 >/dev/null || fail "history 60"
refused '"61" is not a whole number from 0 to 60 (' history 61
for word in 7 . 7. .0 7.x x.0 7.0.1 -7.0 7.-0 +7.0 4294967296.0 4294967297.0 \
	7.4294967295 7.4294967296 99999999999999999999.0 7.99999999999999999999; do
	refused "\"$word\" is not a CLIENT.CONNECTION (" why -- "$word"
done
for word in 7.12 4294967295.0; do
	refused "there is no sending connection $word (" why "$word"
done

# mpibctl must refuse an option that would have no effect.
for command in metrics 'events follow'; do
	# shellcheck disable=SC2086 # words
	timeout 30 "$build/proxy/mpibctl" -s "$dir/n0" $command -o pid >"$dir/out" 2>&1
	[ $? -eq 2 ] || fail "-o of $command: $(head -n 3 "$dir/out")"
done
[ "$(ctl doctor --strict --quiet -o status | sort -u | xargs)" = WARN ] ||
	fail "quiet: $(ctl doctor --strict --quiet -o status)"
ctl -j doctor --strict --quiet | has '"OK"' && fail "doctor --json --quiet prints checks that passed"
# With --json, "events follow" prints each event as one line. When the command
# fails at the end, the error is one line, too.
ctl_of 1 -j events follow >"$dir/followed" 2>/dev/null &
follower=$!
await test -s "$dir/followed"
kill "${pids[1]}"
wait "$follower"
tail -n 1 "$dir/followed" | has '^{"ok": false' || fail "no failure"
grep -vE '^{.*}$' "$dir/followed" && fail "an event is not one line"

# completes WORDS...: print the completions that bash offers for the last word.
completes() (
	. "$(dirname "$0")/../../proxy/ctl/completion/mpibctl.bash"
	COMP_WORDS=("$build/proxy/mpibctl" "$@")
	COMP_CWORD=$#
	export MPIB_RUN_DIR=$dir/n0
	_mpibctl
	echo "${COMPREPLY[*]}"
)
"$build/proxy/mpibctl" --commands | grep -v ^-- >"$dir/commands"
for noun in $(cut -d' ' -f1 "$dir/commands" | sort -u); do
	completes "${noun%?}" | has -w "$noun" || fail "completion lacks $noun"
	is "$(completes -w 2 "$noun" '')" \
		"$(sed -n "s/^$noun \([a-z]*\) .*/\1/p" "$dir/commands" | xargs)"
done
is "$(completes --wat)" --watch
is "$(completes help rai)" rails
is "$(completes rails drain '')" 'SOUT SUP'
is "$(completes fault play SU)" SUP
is "$(completes clients kick '')" "$(ctl clients -o id | xargs)"
is "$(completes config set limit.rea)" limit.readers

# "mpibctl doctor" reports once that the proxy is stopped, with the reason, and
# still makes all other checks.
kill -STOP "${pids[0]}"
ctl doctor -o status,check,what,fix >"$dir/still" 2>&1
[ $? -eq 3 ] || fail "doctor of a stopped proxy"
[ "$(grep -c 'does not answer: .* is stopped.*kill -CONT' "$dir/still")" -eq 1 ] &&
	[ "$(grep -c '^FAIL' "$dir/still")" -eq 1 ] &&
	has '^OK.environment' <"$dir/still" || fail "$(<"$dir/still")"
ctl ping >"$dir/still" 2>&1
[ $? -eq 3 ] && has "pid ${pids[0]} is stopped" <"$dir/still" || fail "$(<"$dir/still")"
kill -CONT "${pids[0]}"

# The JSON output must be valid even if a path is not valid UTF-8.
odd=$dir/$'odd\xff'
"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$odd" \
	--sout "soft:$net.9" --sup none >"$dir/odd.out" 2>"$dir/odd.log" &
odd_pid=$!
await_ready "$dir/odd.out" "$odd_pid" || fail "$(<"$dir/odd.log")"
for noun in info config; do
	"$build/proxy/mpibctl" -s "$odd" -j "$noun" >"$dir/odd.json" 2>&1
	has -F '/odd?"' <"$dir/odd.json" || fail "$noun: $(<"$dir/odd.json")"
done
kill "$odd_pid" && wait "$odd_pid"
exit "$failed"
