#!/usr/bin/env bash
# steer.sh BUILD: run two proxies in adaptive mode without failover, and an
# agent. The agent's configuration has rules, some of them for a limited time,
# and limits for the proxy's counters. Without the agent, a job fails when a QP
# fails. With the agent, the job continues, because the agent has moved it off
# the degrading rail.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/steered.sh"
proxy_options=(--mode adaptive --failover=no --resume-grace=0 --fault=yes)
agent_options=(--config "$dir/conf")

# told WHAT TEXT COMMAND...: wait until the output of the command contains the
# text. WHAT names the check in an error message.
told() {
	local what=$1 text=$2
	shift 2
	says() {
		"$@" >"$dir/told" 2>&1
		grep -q -- "$text" "$dir/told"
	}
	await says "$@" && return
	cat "$dir/told"
	fail "$what: missing: $text"
}
gone() {
	! lives "$1"
}
# rules LINE...: write these rules to the agent's configuration file.
rules() {
	printf '%s\n' "hold $hold" "sick sout cqe_errors 10" "$@" \
		>"$dir/conf"
	[ -z "${pids[agent]:-}" ] || kill -HUP "${pids[agent]}"
}
then="from 2001-01-01T00:00:00Z to 2101-01-01T00:00:00Z"
hold=100000

rules "speed sup 1"
"$build/proxy/mpib-agent" --config "$dir/conf" --check-config ||
	fail "the valid file was refused"

# First run without the agent. In this run, the job must fail when a QP of SUP
# fails.
proxy 0
proxy 1
traffic
expect "no agent" '$1 > 0 && $2 > 0'
ctl fault play SUP >/dev/null || fail "no fault"
await gone "${pids[perf]}" || fail "the job survived its QP without the agent"

traffic
agent
expect "an agent without a reason" '$1 > 0 && $2 > 0'
told "the agent" '^SUP *well' ctl agent
told "why" 'adaptive.*no rule' ctl why

# While SUP counts as congested, it gets a quarter of the bytes. After that, SUP
# gets its measured share again.
rules "congested sup tx_bytes 1"
expect "congested" '$1 == 3 * $2'
told "the agent" '^SUP *eased .*SUP: tx_bytes' ctl agent
told "why" 'hint.*SUP eased: SUP: tx_bytes' ctl why
hold=1
rules
told "well again" adaptive ctl why
rules "sick sup no_such_counter 1"
told "a counter that there is not" 'no_such_counter: no rail of the proxy' \
	cat "$dir/agent.log"

# If the agent refuses the file at a reload, nothing must change. A valid file
# must take effect.
rules "rule static 1024" "rule peer nowhere static 1"
"$build/proxy/mpib-agent" --config "$dir/conf" --check-config \
	2>"$dir/refused" && fail "a rule for an unknown peer was accepted"
grep -q "conf:4: peer nowhere: expected" "$dir/refused" ||
	fail "the refusal does not name the line: $(cat "$dir/refused")"
told "the reload" 'not reloaded: .*conf:4: peer nowhere' ctl agent
expect "a bad file" '$1 > 0 && $2 > 0'
rules "rule peer $net.99 static 0" "rule network $net.0/24 static 256"
expect "a rule by network" '$1 == 3 * $2'
told "the line of the rule" 'rule of line 4' ctl why
told "a field" 'rule of line 4' ctl why -o agent.why
rules
expect "the first file again" '$1 > 0 && $2 > 0 && $1 != 3 * $2'

# Drain SOUT for messages to node 1, then instead for messages to another peer.
rules "rule peer $net.2 $then drain sout"
expect "maintenance" '$1 == 0'
told "why" 'SOUT avoided: maintenance, line 3' ctl why
rules "rule peer $net.99 $then drain sout"
told "another's maintenance" adaptive ctl why

# With --dry-run the agent must print the same decisions but not steer.
end -TERM agent
agent --dry-run
rules "rule peer $net.2 $then drain sout"
told "a dry run" 'adaptive.*SOUT avoided: maintenance, line 3' ctl why
told "a dry run" 'dry run: nothing is steered' ctl agent
expect "a dry run" '$1 > 0 && $2 > 0'
end -TERM agent
unset 'pids[agent]'
hold=100000
rules
agent

# SUP counts as degraded, so no job uses it. Then a QP of SUP fails, and the job
# continues.
rules "sick sup tx_bytes 1"
expect "sick" '$2 == 0'
told "the agent" '^SUP *left .*SUP: tx_bytes' ctl agent
ctl fault play SUP >/dev/null || fail "no fault"
told "the fault" 'rehearsal: the QPs of SUP fail' cat "$dir/log0"
expect "saved" '$1 > 0 && $2 == 0'
lives "${pids[perf]}" || fail "the job died with a QP it left"

end -TERM agent
[ -z "$(ls "$dir/agent")" ] || fail "the agent left $(ls "$dir/agent")"
exit "$failed"
