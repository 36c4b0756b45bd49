#!/usr/bin/env bash
# metrics.sh BUSY_METRICS SOURCE: check the metrics of a node with 64 clients.
# promtool must find no error, and there must be at most 2,000 series. The
# manual must have every metric. The dashboard and the alerts must use only
# existing metrics, and the tests in mpib-alerts-test.yml must pass.
set -uo pipefail
busy=$1 source=$2
page=$source/proxy/man/mpib-metrics.7.scd
failed=0

fail() {
	echo "$*"
	failed=1
}

series=$("$busy" 64 16 | grep -vc '^#')
echo "$series series at 64 clients and 16 progress threads"
[ "$series" -gt 500 ] && [ "$series" -le 2000 ] || fail "too few or too many"
more=$("$busy" 1024 16 | grep -vc '^#')
[ "$more" -eq "$series" ] || fail "$more series at 1024 clients"

# Numbers must be exact, names must be quoted, and the sums must include the
# bytes of closed connections. Clients beyond the 64th are only in the sums.
text=$("$busy" 100 2)
while IFS= read -r line; do
	grep -qxF -- "$line" <<<"$text" || fail "no line: $line"
done <<'END'
mpib_rail_tx_bytes_total{rail="SUP"} 9007199254740993
mpib_registered_bytes 1152921504606846976
mpib_rail_speed_bytes_per_second{rail="SOUT"} 50000000000
mpib_client_tx_bytes_total{client="2",uid="1001",rail="SOUT"} 4007
mpib_client_rx_bytes_total{client="2",uid="1001",rail="SUP"} 209
mpib_client_info{client="1",uid="1000",pid="1000",name="rank \"0\" \\ {a=b}"} 1
mpib_clients 100
mpib_connections 400
END
grep -q '{client="64",' <<<"$text" || fail "the 64th client has no series"
grep -q '{client="65",' <<<"$text" && fail "the 65th client has a series"
[ "$(tail -n 1 <<<"$text")" = "# EOF" ] || fail "the text does not end with # EOF"

names=$("$busy" 1 1 | sed -n 's/^# HELP \([^ ]*\) .*/\1/p')
[ -n "$names" ] || fail "no metrics"
for name in $names; do
	grep -qF -- "*${name//_/\\_}*" "$page" || fail "$page does not have $name"
done
while read -r used; do
	bare=$(sed -E 's/_(bucket|sum|count)$//' <<<"$used")
	grep -qxE "$used|$bare" <<<"$names" || fail "there is no metric $used"
done < <(grep -ohE '\bmpib_[a-z0-9_]+' "$source"/proxy/metrics/share/* | sort -u)

if ! command -v promtool >/dev/null; then
	[ "$failed" -eq 0 ] || exit 1
	echo "SKIPPED: promtool is not installed (package prometheus)"
	exit 77
fi
for clients in 0 1 64; do
	out=$("$busy" "$clients" 2 | promtool check metrics 2>&1) &&
		[ -z "$out" ] || fail "promtool, $clients clients: $out"
done
promtool check rules "$source/proxy/metrics/share/mpib-alerts.yml" ||
	fail "the alert rules"
promtool test rules "$source/proxy/metrics/share/mpib-alerts-test.yml" ||
	fail "an alert fires when it should not, or does not when it should"
exit "$failed"
