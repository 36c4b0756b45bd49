#!/usr/bin/env bash
# removed.sh BUILD: a user removes the control socket, all sockets, or the whole
# run directory of a running proxy. "mpibctl ping" and "mpibctl doctor" must
# report that no process can attach. Soon after that, processes must be able to
# attach again. A running job must not be affected.
set -uo pipefail
build=$(realpath "$1")
. "$(dirname "$0")/../support/nodes.sh"

pair_start
pair_traffic 1

attaches() {
	ctl ping >"$dir/ping" 2>&1
}
# not_attached: check that no process can attach and that mpibctl ping and
# doctor report this.
not_attached() {
	! attaches && has 'proxy.sock' <"$dir/ping" &&
		! ctl doctor --quiet >"$dir/doctor" 2>&1 &&
		has 'FAIL.*\(proxy\|stats\).sock' <"$dir/doctor"
}
# removed WHAT PATH...: remove the paths. The proxy checks every 10 s whether
# the paths exist. If the proxy recreates a path before the test has made its
# check, the test removes the path again.
removed() {
	local what=$1 tries
	shift
	for tries in 1 2 3 4 5; do
		rm -rf "$@"
		not_attached && break
		[ "$tries" -lt 5 ] || fail "$what: ping and doctor say:" \
			"$(cat "$dir/ping" "$dir/doctor")"
	done
	await attaches || fail "$what: not made again: $(cat "$dir/ping")"
	"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
		--nodes "$dir/n0,$dir/n1" --min 64K --max 64K --iters 2 \
		>"$dir/again" 2>&1 || fail "$what: $(cat "$dir/again")"
}
removed "the control socket" "$dir/n0/proxy.sock"
removed "all sockets" "$dir/n0"/*.sock "$dir/n0.admin"
removed "the run directory" "$dir/n0"
[ "$(cat "$dir/n0/proxy.pid")" = "${pids[0]}" ] || fail "proxy.pid is wrong"
"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n0" \
	--sout "soft:$net.31" --sup "soft:$net.41" >"$dir/second" 2>&1 &&
	fail "a second proxy serves the same directory"
has "already runs there, pid ${pids[0]}" <"$dir/second" ||
	fail "the second proxy says: $(cat "$dir/second")"
ctl events | has "proxy.sock was removed from" || fail "no event: $(ctl events)"
lives "${pids[perf]}" || fail "the job ended: $(cat "$dir/perf")"
exit "$failed"
