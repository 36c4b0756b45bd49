#!/usr/bin/env bash
# tables.sh BUILD [--update]: run two nodes with traffic. Compare mpibctl's
# tables, and the names in its JSON output, with tables.golden. Before the
# comparison, numbers, addresses and times are replaced by N, and equal lines by
# one line. With --update, write tables.golden instead.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
golden=$(dirname "$0")/tables.golden

mask() {
	sed -E "s/\b$(hostname)\b/HOST/g"'
		s/\b(io_uring|epoll)\b/IO/g; s/\b(split|spray|dqplb|auto)\b/SPREAD/g
		s/0x[0-9a-f]+/N/g
		s/(soft:)?[0-9]+([.:-][0-9]+)*( (B|[KMGTPE]iB|[kMGTPE]|[num]?s|min)\b)?/N/g
		s/\b(- )+/- /g; s/ +/ /g; s/^ //; s/ (-|N)( (-|N))*/ N/g'
}

# table ARGUMENT...: run mpibctl. Print the heading, and after it the other
# lines in sorted order.
table() {
	local text
	text=$(ctl "$@" | mask)
	echo "== $*"
	sed 1q <<<"$text"
	sed 1d <<<"$text" | sort -u
}

keys() {
	echo "== keys of $*"
	ctl -j "$@" | grep -oE '"[A-Za-z0-9_]+":' | sort -u | tr -d '":' | paste -sd ' '
}

all() {
	local noun
	for noun in rails devices jobs clients conns lanes peers cluster; do
		table --wide "$noun"
		keys "$noun"
	done
	for noun in rails clients conns peers; do
		table -r "$noun"
	done
	for noun in stuck hist "hist send.submit_done" why; do
		# shellcheck disable=SC2086
		table $noun | sed 3q
		# shellcheck disable=SC2086
		keys $noun
	done
	keys info
}

pair_start
pair_traffic 2
have() {
	[ "$(ctl jobs -o tx_bytes)" -gt 0 ] && ctl why | has adaptive
}
await have || fail "no traffic"
all >"$dir/all"
[ "${2-}" != --update ] || cp "$dir/all" "$golden"
diff -u "$golden" "$dir/all" || fail "tables differ from $golden (--update writes it)"
exit "$failed"
