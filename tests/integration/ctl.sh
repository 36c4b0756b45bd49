#!/usr/bin/env bash
# ctl.sh BUILD: what scripts have of mpibctl: fields as CSV, failures as JSON,
# tables again and again, whole lines in a pipe, help of one noun.
set -uo pipefail
build=$1
. "$(dirname "$0")/pair.sh"
long=$(for uid in {1001..1012}; do printf 'uid=%s:weight=5,' "$uid"; done)
pair_start --share-rules "${long%,}"
ctl() {
	"$build/proxy/mpibctl" -s "$dir/n0" "$@"
}

[ "$(ctl rails --csv -o name,mtu,hw | tr -d '\r')" = $'name,mtu,hw\nSOUT,4096,\nSUP,4096,' ] ||
	fail "csv: $(ctl rails --csv -o name,mtu,hw)"
# A value with a comma and quotes is quoted, its quotes doubled.
ctl info --csv -o rails | has -F "\"[\"\"soft:$net.1\"\"," ||
	fail "csv: $(ctl info --csv -o rails)"
[ "$(ctl rails --csv -o name | tr -cd '\r' | wc -c)" -eq 3 ] ||
	fail "lines of CSV do not end as RFC 4180 has it"
ctl rails --csv >/dev/null 2>&1
[ $? -eq 2 ] || fail "CSV without fields"

# json_error STATUS TEXT ARGUMENT...
json_error() {
	local status=$1 text=$2 out rc
	shift 2
	out=$("$build/proxy/mpibctl" "$@" 2>"$dir/err")
	rc=$?
	[ "$rc" -eq "$status" ] && grep -q '"ok": false' <<<"$out" &&
		grep -q "\"status\": $status" <<<"$out" &&
		grep -q "\"error\": \".*$text" <<<"$out" && [ -s "$dir/err" ] ||
		fail "-j $*: $rc, $out"
}
json_error 3 'No such file' -j -s "$dir/nowhere" rails
json_error 2 'none of that name' -j -s "$dir/n0" rails -o nope
json_error 2 'no noun' -j nonsense
json_error 1 'no client 999' -j -s "$dir/n0" clients kick 999
ctl nonsense 2>/dev/null | has . && fail "JSON that was not asked for"

# It ends when nobody reads any more, or the proxy is gone.
ctl --watch 1 rails 2>/dev/null | head -n 7 >"$dir/twice"
[ "$(grep -c '^RAIL ' "$dir/twice")" -eq 2 ] || fail "watch: $(<"$dir/twice")"
[ "$(grep -cE '^[0-9]{2}:[0-9]{2}:[0-9]{2}$' "$dir/twice")" -ge 2 ] ||
	fail "watch has no time: $(<"$dir/twice")"
ctl --watch 1 -j ping >/dev/null 2>&1
[ $? -eq 2 ] || fail "what shows nothing is watched"
for n in 0 -1 x 3601 ''; do
	ctl --watch "$n" rails >/dev/null 2>&1
	[ $? -eq 2 ] || fail "--watch \"$n\" is taken"
done

ctl config | has 'uid=1012:weight=5' || fail "a pipe cuts lines"

ctl help rails | has 'rails drain RAIL' || fail "help of a noun"
ctl rails --help | has 'clients kick' && fail "help of a noun has the others"
[ "$(ctl help)" = "$(ctl --help)" ] || fail "help is not --help"
ctl help | has 'clients kick CLIENT' || fail "help lacks a command"

# Software rails are for trials: a strict doctor refuses them, and nothing else.
verdict=$(ctl doctor --strict)
[ $? -eq 1 ] || fail "doctor --strict: $verdict"
[ "$(grep -c '^OK    loop S[A-Z]* .* moved 16 MiB to itself, right' <<<"$verdict")" -eq 2 ] ||
	fail "no bytes over a rail: $verdict"
quiet=$(ctl doctor --strict --quiet)
[ $? -eq 1 ] || fail "doctor --strict --quiet"
[ "$(grep -cE '^(WARN|FAIL)  ' <<<"$quiet")" -ge 2 ] || fail "quiet: $quiet"
grep -qE '^(OK|NOTE)|^[0-9]+ ok,' <<<"$quiet" && fail "not quiet: $quiet"
ctl doctor >/dev/null || fail "doctor is strict unasked"
ctl rails --strict 2>/dev/null
[ $? -eq 2 ] || fail "a strict table"
ctl config set hca.speed 400 >/dev/null || fail "config set hca.speed"
[ "$(ctl rails -o expected_mbps | sort -u)" = 400000 ] || fail "expected speed"
exit "$failed"
