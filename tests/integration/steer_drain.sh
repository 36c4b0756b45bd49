#!/usr/bin/env bash
# steer_drain.sh BUILD: run two nodes, of which only node 1 has an agent. While
# this agent calls a rail sick, or drains a rail for a limited time, neither node
# sends over the rail. The traffic returns when the agent's reason ends, and
# when the agent is killed. The last rail is never drained.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"

# agent OPTIONS...: start the agent of node 1, and set ${pids[agent]}.
agent() {
	rm -f "$dir/agent.out"
	"$build/proxy/mpib-agent" --dir "$dir/agent" --run-dir "$dir/n1" \
		--config "$dir/conf" "$@" \
		>"$dir/agent.out" 2>>"$dir/agent.log" &
	pids[agent]=$!
	ready agent
}
# lines LINE...: give the agent these lines as its file.
lines() {
	printf '%s\n' "hold 1" "$@" >"$dir/conf"
	[ -z "${pids[agent]:-}" ] || kill -HUP "${pids[agent]}"
}
# used: print for each node the rails that send bytes in 0.3 s, in which the job
# sends many messages, such as "SOUT,SUP SOUT".
used() {
	local before
	before=$(sent) && sleep 0.3 && paste <(echo "$before") <(sent) |
		awk '$4 > $2 { used = used sep $1; sep = "," }
			$1 == "SUP" { print used; used = sep = "" }' | xargs
}
sent() {
	ctl_of 0 rails -o name,tx_bytes && ctl_of 1 rails -o name,tx_bytes
}
both_nodes() {
	[ "$(used)" = "$1 $1" ]
}
expect() { # WHAT WANTED
	await both_nodes "$2" && return
	for node in 0 1; do
		ctl_of "$node" rails
		ctl_of "$node" why
	done
	ctl_of 1 agent
	ctl_of 1 events
	fail "$1: not $2"
}
# says NODE TEXT ARGUMENT...: wait until the output of mpibctl has the text.
says() {
	local node=$1 text=$2
	shift 2
	shown() {
		ctl_of "$node" "$@" >"$dir/shown" 2>&1
		grep -q -- "$text" "$dir/shown"
	}
	await shown "$@" && return
	fail "$*: missing $text: $(cat "$dir/shown")"
}

node 0 --sup-bw 512
node 1 --mode adaptive --agent-dir "$dir/agent"
nodes_ready 0 1
lines
agent
job perf "0 1" --pattern sendrecv --min 1M --max 1M --steady 250s --timeout 290
expect "before" SOUT,SUP

# A sick rail is drained at both ends, with the agent's words as the reason.
# An operator cannot resume it.
sick="speed sup 1000000"
lines "$sick"
expect "SUP is sick" SOUT
says 0 drain why -o source
says 1 'SUP .* drained: agent: SUP: [0-9]* of 1000000 Gb/s' rails
says 1 'rail SUP is drained by the agent: SUP: ' events
says 0 'SUP drained, drained because: agent: SUP: ' cluster
ctl_of 1 rails resume SUP >"$dir/resumed" 2>&1 && fail "the operator resumed SUP"
has 'the agent drains SUP' <"$dir/resumed" || fail "$(cat "$dir/resumed")"

# The operator of node 1 drains the other rail, which ends the agent's drain.
ctl_of 1 rails drain SOUT >/dev/null || fail "SOUT is not drained"
expect "the operator drains SOUT" SUP
says 1 'rail SUP is resumed by the agent' events
ctl_of 1 rails resume SOUT >/dev/null || fail "SOUT is not resumed"
expect "SOUT is resumed" SOUT
[ ! -e "$dir/n1/state" ] ||
	fail "the agent's drain is saved: $(cat "$dir/n1/state")"

# If both rails are sick, neither is drained.
lines "$sick" "speed sout 1000000"
expect "both are sick" SOUT,SUP
# A rail that an operator has drained, too, is drained until both agree.
lines "$sick"
expect "SUP alone is sick again" SOUT
ctl_of 1 rails drain SUP cable 17 >/dev/null || fail "SUP is not drained"
says 1 'drained: cable 17' rails
[ "$(ctl_of 1 rails resume SUP)" = "rail SUP, drained" ] || fail "resume"
says 1 'drained: agent: ' rails
lines
expect "well again" SOUT,SUP
says 1 'rail SUP is resumed by the agent' events

# The drain ends when the agent is killed. An agent that only reports what it
# would do drains nothing.
lines "$sick"
expect "SUP is sick again" SOUT
kill -9 "${pids[agent]}"
wait "${pids[agent]}" 2>/dev/null
unset 'pids[agent]'
expect "the agent is killed" SOUT,SUP
agent --dry-run
says 1 'SUP *left .*SUP: ' agent
expect "a dry run" SOUT,SUP
kill "${pids[agent]}"
wait "${pids[agent]}" 2>/dev/null
unset 'pids[agent]'

# A timed drain for all peers is a drain at both ends. One for a network is a
# rule for this node's connections.
then="from 2020-01-01T00:00:00Z to 2099-01-01T00:00:00Z"
lines "rule $then drain sup"
agent
expect "maintenance" SOUT
says 1 'drained: agent: maintenance, line 2' rails
lines "rule network $net.0/24 $then drain sup"
says 1 'hint.*SUP avoided: maintenance, line 2' why
says 1 '^SUP .* active' rails
[ "$failed" -eq 0 ] || tail -n 20 "$dir"/log? "$dir"/*.log "$dir/perf"
exit "$failed"
