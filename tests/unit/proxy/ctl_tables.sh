#!/usr/bin/env bash
# ctl_tables.sh BUILD [--update]: run mpibctl on the answers in answers.txt, on
# a terminal of 80 columns and with --wide. The output must be equal to
# ctl_tables.golden. For an answer without fields, mpibctl must not fail. For an
# incomplete answer, mpibctl must print nothing. --update writes the golden
# file.
set -uo pipefail
build=$1
here=$(dirname "$0")
. "$here/../../support/scratch.sh"
export TZ=UTC
command -v script >/dev/null || {
	echo "SKIPPED: script(1) is missing"
	exit 77
}

ctl() {
	"$build/proxy/mpibctl" -s "$dir/$1" "${@:2}"
}
# Run mpibctl on a terminal. script(1) makes a terminal without a size, which
# counts as 80 columns.
terminal() {
	script -qec "$build/proxy/mpibctl -s $dir/$*" /dev/null </dev/null | tr -d '\r'
}
stub() {
	mkdir "$dir/$1"
	"$here/stats_stub.pl" "$dir/$1/stats.sock" "$2" &
	await test -S "$dir/$1/stats.sock"
}
nouns="rails devices jobs clients conns lanes peers cluster info config hist
	history stuck why agent events"
all() {
	local noun
	for noun in $nouns; do
		echo "== $noun"
		terminal full "$noun"
		echo "== $noun --wide"
		ctl full "$noun" --wide
	done
	echo "== -o"
	ctl full agent -o rail,why
	ctl full devices -o net,rails.1.device
}

stub full "$here/answers.txt"
sed -E 's/^([a-z]+) \[.*/\1 [{}]/; s/^([a-z]+) \{.*/\1 {}/' "$here/answers.txt" >"$dir/bare.txt"
stub bare "$dir/bare.txt"
all >"$dir/all"
[ "${2-}" != --update ] || cp "$dir/all" "$here/ctl_tables.golden"
diff -u "$here/ctl_tables.golden" "$dir/all" || fail "tables differ (--update writes them)"
LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$dir/all" && fail "a control character"
for noun in $nouns; do
	timeout 10 "$build/proxy/mpibctl" -s "$dir/bare" "$noun" --wide >"$dir/out" 2>&1 ||
		[ "$noun $?" = "cluster 1" ] || fail "bare $noun: $(cat "$dir/out")"
done

# An incomplete answer is an error. mpibctl prints no table and does not repeat
# the request.
printf '%s\n' 'conns !' 'rails !{"ok":true,"da' 'metrics !{"ok":true,"da' >"$dir/half.txt"
stub half "$dir/half.txt"
for noun in conns rails metrics; do
	out=$(ctl half "$noun" 2>"$dir/err")
	[ "$? $out" = "3 " ] && grep -q 'hung up' "$dir/err" ||
		fail "half of an answer to $noun: $out $(cat "$dir/err")"
done
[ "$(grep -c '^conns' "$dir/half/stats.sock.asked")" -eq 1 ] || fail "conns is asked again"
exit "$failed"
