# shellcheck shell=bash
# For scripts in which mpib-agent steers a job between nodes 0 and 1. Such a
# script sets $build, $proxy_options (the options of each proxy) and
# $agent_options (the options of the agent).
. "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"

# proxy N: start node N and wait until it is ready.
proxy() {
	node "$1" --agent-dir "$dir/agent" "${proxy_options[@]}"
	nodes_ready "$1"
}
# agent OPTIONS...: start the agent, and set ${pids[agent]}.
agent() {
	rm -f "$dir/agent.out"
	"$build/proxy/mpib-agent" --dir "$dir/agent" --run-dir "$dir/n0" \
		"${agent_options[@]}" "$@" \
		>"$dir/agent.out" 2>>"$dir/agent.log" &
	pids[agent]=$!
	ready agent
}
# traffic: start mpib-perf as the job, and set ${pids[perf]}.
traffic() {
	job perf "0 1" --pattern stream --min 1M --max 1M --steady 200s \
		--timeout 250
}
# end SIGNAL NAME: send the signal to ${pids[NAME]}, and wait until the program
# has ended.
end() {
	kill "$1" "${pids[$2]}"
	wait "${pids[$2]}" 2>/dev/null
}

moved() {
	ctl rails -o tx_bytes | tr '\n' ' '
}
# expect WHAT AWK-CONDITION: wait until the condition is true. WHAT describes
# the condition in messages. In the condition, $1 and $2 are the numbers of
# bytes that SOUT and SUP sent in 0.1 s.
expect() {
	local a b seen
	for _ in $(seq 1200); do
		read -r -a a <<<"$(moved)"
		sleep 0.1
		read -r -a b <<<"$(moved)"
		seen="$((b[0] - a[0])) $((b[1] - a[1]))"
		awk "{ exit !(\$1 + \$2 > 0 && $2) }" <<<"$seen" && {
			echo "$1: $seen"
			return
		}
		lives "${pids[perf]}" || break
	done
	cat "$dir/perf" "$dir/log0" "$dir/agent.log"
	ctl agent
	ctl why
	fail "$1: SOUT and SUP moved $seen"
}
