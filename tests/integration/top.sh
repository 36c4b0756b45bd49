#!/usr/bin/env bash
# top.sh BUILD: run mpib-top on a terminal while messages move.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
top=$build/proxy/mpib-top

# refused STATUS COMMAND...: check that a wrong command fails with this status,
# prints an error, and prints nothing else.
refused() {
	local want=$1 rc
	shift
	"$@" >"$dir/o" 2>"$dir/e" </dev/null
	rc=$?
	[ "$rc" -eq "$want" ] || fail "$*: status $rc, not $want"
	[ -s "$dir/o" ] && fail "$*: prints $(<"$dir/o")"
	[ "$(wc -l <"$dir/e")" -eq 1 ] &&
		grep -qE '^mpib-top: .+: .+ \(.+\)$|^mpib-top: .+ ".*" \(.+\)$' \
			"$dir/e" || fail "$*: not one clear line: $(<"$dir/e")"
}
refused 2 "$top"
refused 2 "$top" --nonsense
refused 2 "$top" -d x
refused 2 "$top" -t cons
refused 2 "$top" -b
refused 2 "$top" rails
"$top" --help >"$dir/o" || fail "--help"

pair_start
pair_traffic 2

if ! command -v tmux >/dev/null; then
	echo "SKIPPED: the screen: tmux is not installed"
	[ "$failed" -eq 0 ] && exit 77
	exit 1
fi
t() {
	tmux -L "mpib-top-$$" -f /dev/null "$@"
}
shows() {
	t capture-pane -p >"$dir/screen" 2>/dev/null
	grep -qE "$1" "$dir/screen"
}
# until_shown PATTERN: wait until the screen shows the pattern, at most a
# minute.
until_shown() {
	await shows "$1" && return
	fail "the screen never shows \"$1\""
	cat "$dir/screen"
}
t new-session -d -x 80 -y 24 \
	"LC_ALL=C.UTF-8 $top -s $dir/n0 -d 0.2; echo left \$?; sleep 60"
until_shown '^RAIL .* TX Gb/s'
until_shown '^SOUT .* active +[0-9.]*[1-9]'
t send-keys 2
until_shown '^ID .*TX Gb/s'
until_shown ' mpib-perf '
t send-keys 3
until_shown '^CLIENT +CONN +DIR'
t send-keys 4
until_shown '^JOB '
# If the events do not fit on the screen, the newest event must be at the top.
for _ in {1..30}; do
	ctl config set log.level info >/dev/null
done
ctl config set log.level warn >/dev/null
t send-keys 8
until_shown 'log.level is warn'
t send-keys h
until_shown 'sort by rate'
t send-keys p
until_shown 'PAUSED'
t send-keys p
t send-keys s
t send-keys 1
# mpib-top must have the new table before the proxy ends.
until_shown '^SOUT '
t resize-window -x 60 -y 10
until_shown '^ rails +clients'
kill "${pids[0]}"
until_shown 'hung up|No such file|refused'
# mpib-top must mark old data, and must not cut off the remedy in the error
# message.
until_shown '^NO ANSWER, the table below is [0-9]+ s old'
t resize-window -x 80 -y 24
# The first error may be that the proxy hung up.
is_whole() {
	shows 'NO ANSWER' && tr -d '\n' <"$dir/screen" |
		has 'name its run directory by -s or MPIB_RUN_DIR)'
}
await is_whole || fail "the remedy is cut: $(tail -n 4 "$dir/screen")"
t send-keys q
until_shown 'left 0'
t kill-server
exit "$failed"
