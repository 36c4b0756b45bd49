#!/usr/bin/env bash
# walk.sh BUILD SOURCE: run the commands of docs/walk.md for two nodes, which
# are two network namespaces connected by two veth pairs. Each command must
# succeed and print lines of the form that the page shows.
set -uo pipefail
build=$(realpath "$1") source=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
. "$here/../support/namespaces.sh"
enter_namespaces "the walk" "$build" "$source"
. "$here/../support/lines.sh"
. "$here/../support/workdir.sh"
at_end() {
	exec 2>/dev/null
	kill -9 -1 # all of this namespace
	umount -l /run
}
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/netns
for node in 0 1; do
	ip netns add "node$node" && ip -n "node$node" link set lo up || {
		echo "SKIPPED: the walk: there are no network namespaces"
		exit 77
	}
done
for wire in 0 1; do
	ip link add "a$wire" netns node0 type veth peer name "a$wire" netns node1
	for node in 0 1; do
		ip -n "node$node" link set "a$wire" up
		ip -n "node$node" address add \
			"192.0.2.$((wire * 128 + node + 1))/25" dev "a$wire"
	done
done
export PATH=$build/proxy:$build/bench:$PATH LD_LIBRARY_PATH=$build/plugin

# A block of the page is a line "node0$ COMMAND" and its output, up to the next
# such line. Compare the lines without numbers and column widths, which differ
# on this machine.
awk '/^```/ { inside = !inside; next } inside' "$source/docs/walk.md" >"$dir/page"
form() {
	sed -E 's/[0-9]+(\.[0-9]+)?/N/g; s/[[:space:]]+/ /g; s/ $//' | grep -v '^$'
}
# Each command has its own file, because background commands continue to write.
node='' command='' shown='' number=0
check() {
	[ -n "$command" ] || return
	local out=$dir/out$((number++))
	# A background command is ready when it has printed its ready line.
	if [[ $command == *" &" ]]; then
		ip netns exec "$node" bash -c "exec ${command% &}" \
			>"$out" 2>"$out.err" &
		await_ready "$out" $! ||
			fail "$node: $command: $(<"$out.err")"
	else
		ip netns exec "$node" timeout 300 bash -c "$command" \
			>"$out" 2>&1 || fail "$node: $command: $(<"$out")"
	fi
	form <"$out" >"$dir/got"
	while IFS= read -r line; do
		[ -n "$line" ] || continue
		grep -qxF -- "$line" "$dir/got" ||
			fail "$node: $command: no line \"$line\" in: $(<"$out")"
	done < <(form <<<"$shown")
}
while IFS= read -r line; do
	if [[ $line =~ ^(node[01])\$\ (.*) ]]; then
		check
		node=${BASH_REMATCH[1]} command=${BASH_REMATCH[2]} shown=''
	else
		shown+=$line$'\n'
	fi
done <"$dir/page"
check
[ "$(grep -c '^node[01]\$' "$dir/page")" -ge 8 ] || fail "the page has no walk"
exit "$failed"
