#!/usr/bin/env bash
# ethtool.sh BUILD: the agent sees what only ethtool -S has of a port's network
# device, here a veth in a network namespace of its own: a rail is left for it.
# Counters and devices that there are none of are warned of.
set -uo pipefail
build=$(realpath "$1")
if [ "${2:-}" != inside ]; then
	if ! unshare -Urn ip link show >/dev/null 2>&1; then
		echo "SKIPPED: a device's statistics, as no namespace or no ip is to be had"
		exit 77
	fi
	exec unshare -Urn bash "$0" "$build" inside
fi
. "$(dirname "$0")/../support/scratch.sh"

status() {
	"$build/proxy/mpib-agent" status --dir "$dir/agent"
}
# A veth counts the index of its other end, which each new one has greater.
count=0
replace() {
	count=$((count + 1))
	ip link add "a$count" type veth peer name "b$count" &&
		ip link add "c$count" type veth peer name "d$count" &&
		ip link set v0 name "old$count" && ip link set "c$count" name v0
}
is_left() {
	replace
	status | has '^sup *left .*mlx5_1/1: peer_ifindex [1-9]'
}
warned() {
	grep -q "mlx5_1/1: $1" "$dir/log"
}

ip link add v0 type veth peer name v1 || exit 1
port=$dir/sys/class/infiniband/mlx5_1/ports/1
mkdir -p "$port/counters" "$port/hw_counters" "$port/gid_attrs/ndevs"
echo '4: ACTIVE' >"$port/state"
echo v0 >"$port/gid_attrs/ndevs/0"
printf 'port sup mlx5_1 1\nsick peer_ifindex 1\nhold 1000\n' >"$dir/conf"
"$build/proxy/mpib-agent" --dir "$dir/agent" --run-dir "$dir/none" \
	--sysfs "$dir/sys" --config "$dir/conf" >"$dir/out" 2>"$dir/log" &
agent=$!
await_ready "$dir/out" "$agent" || { cat "$dir/log"; exit 1; }
await status >/dev/null
status | has '^sup *well' || fail "at first: $(status)"
warned peer_ifindex && fail "what a veth counts: $(<"$dir/log")"
await is_left || fail "it is not left: $(status) $(<"$dir/log")"
status

printf 'port sup mlx5_1 1\nsick rx_symbol_err_phy 1\n' >"$dir/conf"
kill -HUP "$agent"
await warned 'rx_symbol_err_phy: No such file' ||
	fail "a counter that it has not: $(<"$dir/log")"
echo v9 >"$port/gid_attrs/ndevs/0"
printf 'port sup mlx5_1 1\nsick peer_ifindex 1\n' >"$dir/conf"
kill -HUP "$agent"
await warned 'peer_ifindex: No such device' ||
	fail "a device that there is not: $(<"$dir/log")"
exit "$failed"
