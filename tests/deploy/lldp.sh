#!/usr/bin/env bash
# lldp.sh BUILD SOURCE: the list of islands that mpib-lldp-islands makes of what
# Debian's lldpd hears, on two nodes at two switches, each a network namespace; an
# agent that has the list knows by it where a peer is.
set -uo pipefail
build=$(realpath "$1") source=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
islands=$source/proxy/packaging/examples/mpib-lldp-islands
for tool in lldpd python3; do
	command -v "$tool" >/dev/null && continue
	echo "SKIPPED: islands by LLDP, as there is no $tool"
	exit 77
done
. "$here/../support/namespaces.sh"
enter_namespaces "islands by LLDP" "$build" "$source"
. "$here/../support/lines.sh"
. "$here/../support/workdir.sh"
at_end() {
	exec 2>/dev/null
	kill -9 -1 # of this namespace
	umount -l /run
}
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/netns
in_ns() { # NAMESPACE COMMAND...
	ip netns exec "$@"
}
lldp() { # NAMESPACE WORD...
	in_ns "$1" lldpcli -u "/run/$1.sock" "${@:2}"
}
line() { # NODE [ADDRESS]: what it prints there, or why not
	in_ns "node$1" "$islands" -u "/run/node$1.sock" port "${@:2}" 2>&1
}
for name in node0 node1 leaf0 leaf1; do
	ip netns add "$name" && ip -n "$name" link set lo up || {
		echo "SKIPPED: islands by LLDP, as there are no network namespaces"
		exit 77
	}
done
for node in 0 1; do
	ip link add port netns "node$node" type veth \
		peer name swp1 netns "leaf$node"
	ip -n "node$node" link set port up
	ip -n "leaf$node" link set swp1 up
done
ip link add wire netns node0 type veth peer name wire netns node1
for node in 0 1; do
	ip -n "node$node" link set wire up
	for last in 1 11; do
		ip -n "node$node" address add "192.0.2.$((node + last))/24" dev wire
	done
done
line 0 192.0.2.1 >"$dir/said" && fail "without lldpd: $(<"$dir/said")"
cat "$dir/said"
for name in node0 node1 leaf0 leaf1; do
	in_ns "$name" lldpd -d -u "/run/$name.sock" -O /dev/null \
		>"$dir/$name.log" 2>&1 &
done
for name in node0 node1 leaf0 leaf1; do
	await lldp "$name" configure lldp tx-interval 1 >/dev/null 2>&1 ||
		fail "lldpd of $name: $(<"$dir/$name.log")"
done
lldp leaf0 configure system hostname "leaf 1a" >/dev/null
lldp leaf1 configure system hostname leaf1b >/dev/null

has 'port has no IPv4 address (give ADDRESS)' <<<"$(line 0)" || fail "$(line 0)"
has '192.0.2 is no IPv4 address' <<<"$(line 0 192.0.2)" || fail "$(line 0 192.0.2)"
heard() {
	[ "$(line 0 192.0.2.1)" = "192.0.2.1 leaf-1a" ] &&
		[ "$(line 1 192.0.2.2)" = "192.0.2.2 leaf1b" ]
}
await heard || {
	fail "$(line 0 192.0.2.1) $(line 1 192.0.2.2)"
	for name in node0 leaf0 node1 leaf1; do
		lldp "$name" show interfaces
		lldp "$name" show statistics
		ip -n "$name" link
		tail -n 30 "$dir/$name.log"
	done
}
ip -n node1 address add 198.51.100.2/24 dev port
line 1 | has '^198.51.100.2 leaf1b$' || fail "its own address: $(line 1)"
for node in 0 1; do
	line "$node" "192.0.2.$((1 + node))"
done | tee "$dir/islands"

for node in 0 1; do
	in_ns "node$node" "$build/proxy/mpib-proxy" --config /dev/null \
		--run-dir "$dir/n$node" --mode adaptive --agent-dir "$dir/agent" \
		--sout "soft:192.0.2.$((1 + node))" \
		--sup "soft:192.0.2.$((11 + node))" >"$dir/out$node" 2>&1 &
	await_ready "$dir/out$node" $! || fail "$(<"$dir/out$node")"
done
"$build/bench/mpib-perf" --plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/n0,$dir/n1" --pattern stream --min 64K --max 64K \
	--steady 300s --timeout 400 >"$dir/job" 2>&1 &
printf 'islands %s\nrule island leaf1b drain sout\n' "$dir/islands" >"$dir/conf"
"$build/proxy/mpib-agent" --dir "$dir/agent" --run-dir "$dir/n0" \
	--config "$dir/conf" >"$dir/outa" 2>&1 &
await_ready "$dir/outa" $! || fail "$(<"$dir/outa")"
steered() {
	"$build/proxy/mpibctl" -s "$dir/n0" why | has ' 1024 *hint '
}
says_why() {
	"$build/proxy/mpibctl" -s "$dir/n0" why | has '192.0.2.2.* 1024 .*rule of line 2'
}
await steered && await says_why || {
	"$build/proxy/mpibctl" -s "$dir/n0" agent
	fail "$("$build/proxy/mpibctl" -s "$dir/n0" why)"
}
"$build/proxy/mpibctl" -s "$dir/n0" why
exit $failed
