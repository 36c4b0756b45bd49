#!/usr/bin/env bash
# agent.sh BUILD: two proxies in advanced mode and mpib-agent, which is killed,
# comes back with other rules, and outlives a proxy. What the sending node's
# rails move between two looks is in the agent's ratio, to the byte.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
proxy() {
	node "$1" --mode advanced --agent-dir "$dir/agent"
	nodes_ready "$1"
}
agent() {
	rm -f "$dir/agent.out"
	"$build/proxy/mpib-agent" --dir "$dir/agent" --run-dir "$dir/n0" \
		--run-dir "$dir/n1" "$@" \
		>"$dir/agent.out" 2>>"$dir/agent.log" &
	pids[agent]=$!
	ready agent
}
end() {
	kill "$1" "${pids[$2]}"
	wait "${pids[$2]}" 2>/dev/null
}
traffic() {
	job perf "0 1" --pattern stream --min 1M --max 1M --steady 100s \
		--timeout 90
}

moved() {
	ctl rails -o tx_bytes | tr '\n' ' '
}
# SOUT and SUP between two looks.
look() {
	local a b
	read -r -a a <<<"$(moved)"
	sleep 0.1
	read -r -a b <<<"$(moved)"
	echo "$((b[0] - a[0])) $((b[1] - a[1]))"
}
# expect WHAT AWK-CONDITION on $1 SOUT and $2 SUP, both of them fresh.
expect() {
	local seen
	for _ in $(seq 1200); do
		seen=$(look)
		awk "{ exit !(\$1 + \$2 > 0 && $2) }" <<<"$seen" && {
			echo "$1: $seen"
			return
		}
		kill -0 "${pids[perf]}" 2>/dev/null || break
	done
	cat "$dir/perf" "$dir/log0" "$dir/agent.log"
	fail "$1: SOUT and SUP moved $seen"
}

proxy 0
proxy 1
traffic
expect "no agent yet" '$2 == 0'
agent static 256
expect "static 256" '$1 == 3 * $2'
end -9 agent
expect "agent killed" '$2 == 0'
agent weights 1:3
expect "weights 1:3" '$2 == 3 * $1'
ctl why
end -TERM agent
agent drain sout
expect "drain sout" '$1 == 0'
end -TERM agent
agent drain sup
expect "drain sup" '$2 == 0'
end -TERM agent
agent balance
expect "balance" '$1 > 0 && $2 > 0'
end -TERM agent
agent static 512 --interval 1000000
expect "static 512" '$1 == $2'
# Its proxies it looks at seldom; what it says of itself is fresh.
told() {
	"$build/proxy/mpib-agent" status --dir "$dir/agent" --json |
		sed -n 's/.*"told": \([0-9]*\).*/\1/p'
}
told=$(told)
later() {
	[ "$(told)" -gt $((told + 1)) ]
}
await later || fail "the status stands still"

# The proxies are restarted, the agent is not.
end -9 perf
end -TERM 0
end -TERM 1
proxy 0
proxy 1
traffic
expect "proxies restarted" '$1 == $2'
end -9 perf
end -TERM agent
[ -z "$(ls "$dir/agent")" ] || fail "the agent left $(ls "$dir/agent")"
exit "$failed"
