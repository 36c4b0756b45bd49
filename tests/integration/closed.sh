#!/usr/bin/env bash
# closed.sh BUILD: start mpib-proxy, mpib-proxy --daemon and mpib-agent with
# closed standard input, output and error. Each program must open /dev/null as
# descriptors 0, 1 and 2. Otherwise a file that the program opens later could
# become descriptor 2, and the program would write its log to that file.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
at_end() {
	[ ! -e "$dir/n0/proxy.pid" ] || kill -9 "$(<"$dir/n0/proxy.pid")" 2>/dev/null
	[ -z "${agent:-}" ] || kill "$agent"
}
# null WHAT PID
null() {
	local fd
	for fd in 0 1 2; do
		[ "$(readlink "/proc/$2/fd/$fd")" = /dev/null ] ||
			fail "$1: $fd is $(readlink "/proc/$2/fd/$fd")"
	done
}
answers() {
	ctl ping >/dev/null 2>&1
}
gone() {
	! lives "$1"
}
for how in "" --daemon; do
	# shellcheck disable=SC2086 # one word or none
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n0" \
		--sout "soft:$net.1" --sup "soft:$net.11" $how <&- >&- 2>&- &
	await answers || {
		fail "mpib-proxy $how does not answer"
		continue
	}
	pid=$(<"$dir/n0/proxy.pid")
	null "mpib-proxy $how" "$pid"
	kill "$pid"
	await gone "$pid" || fail "mpib-proxy $how does not end"
done
"$build/proxy/mpib-agent" --dir "$dir/agent" --run-dir "$dir/n0" adaptive \
	<&- >&- 2>&- &
agent=$!
await test -S "$dir/agent/agent.sock" || fail "mpib-agent does not begin"
null mpib-agent "$agent"
exit "$failed"
