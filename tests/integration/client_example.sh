#!/usr/bin/env bash
# client_example.sh BUILD SOURCE: docs/client.md shows the example as it is; it
# sends between two proxies, built by the tree and, from what is installed, by
# pkg-config as somebody outside does it.
set -uo pipefail
build=$1 source=$2
# shellcheck source=pair.sh
. "$(dirname "$0")/pair.sh"

example=$source/docs/example/send.c
for part in send receive main; do
	shown=$(sed -n "/^<!-- send.c: $part -->/,/^\`\`\`$/p" \
		"$source/docs/client.md" | sed '1,2d;$d')
	real=$(sed -n "/^\/\* \[$part\]/,/^\/\* \[/p" "$example" | sed '1d;$d')
	[ -n "$real" ] || fail "$example has no part $part"
	[ "$shown" = "$real" ] ||
		fail "docs/client.md: $part differs: $(diff <(echo "$shown") \
			<(echo "$real"))"
done

# exchange PROGRAM
exchange() {
	MPIB_RUN_DIR=$dir/n0 timeout 60 "$1" receive 2>"$dir/received" |
		MPIB_RUN_DIR=$dir/n1 timeout 60 "$1" send 2>"$dir/sent" ||
		fail "$1: $(cat "$dir/received" "$dir/sent")"
	grep -qx '1048576 bytes, all right' "$dir/received" ||
		fail "$1 received: $(cat "$dir/received")"
}

pair_start
exchange "$build/docs/example/mpib-send"
if ! command -v pkg-config >/dev/null || [ "${3:-}" ]; then
	echo "SKIPPED: building it by pkg-config, as ${3:-there is none}"
	[ "$failed" -eq 0 ] && exit 77
	exit 1
fi
DESTDIR=$dir/root cmake --install "$build" --component dev >"$dir/install" ||
	fail "install: $(cat "$dir/install")"
pc=$(find "$dir/root" -name mpib.pc)
[ -n "$pc" ] || fail "there is no mpib.pc"
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs mpib) ||
	fail "pkg-config"
[[ $flags == *$dir/root* ]] || fail "those are others' flags: $flags"
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Werror -o "$dir/mpib-send" "$example" $flags ||
	fail "it does not build outside"
exchange "$dir/mpib-send"
exit "$failed"
