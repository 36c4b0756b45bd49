#!/usr/bin/env bash
# agent.sh BUILD: run two proxies in advanced mode with mpib-agent. First the
# script kills the agent and starts it again with other rules. Then it restarts
# the proxies while the agent keeps running. The bytes on the sending node's
# rails must have exactly the ratio that the agent sets.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/steered.sh"
proxy_options=(--mode advanced)
agent_options=()

proxy 0
proxy 1
traffic
expect "no agent yet" '$2 == 0'
agent static 256
expect "static 256" '$1 == 3 * $2'
end -9 agent
expect "agent killed" '$2 == 0'
agent static 768
expect "static 768" '$2 == 3 * $1'
ctl why
end -TERM agent
agent drain sout
expect "drain sout" '$1 == 0'
end -TERM agent
agent drain sup
expect "drain sup" '$2 == 0'
end -TERM agent
agent adaptive
expect "adaptive" '$2 == 0'
end -TERM agent
agent static 512
expect "static 512" '$1 == $2'
# Restart the proxies while the agent keeps running.
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
