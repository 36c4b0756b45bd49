#!/usr/bin/env bash
# https.sh BUILD SOURCE: read metrics over TLS with the token. First curl reads
# the metrics, then a Prometheus with the shipped scrape_config and alerts. At
# the end a proxy is killed, and Prometheus must raise the alert.
set -uo pipefail
build=$(realpath "$1") source=$(realpath "$2")
. "$(dirname "$0")/../support/lines.sh"
for tool in curl openssl; do
	command -v "$tool" >/dev/null && continue
	echo "SKIPPED: HTTPS: there is no $tool (apt-get install $tool)"
	exit 77
done
. "$(dirname "$0")/../support/nodes.sh"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
	-subj /CN=node0 -days 2 \
	-addext "subjectAltName=IP:$net.1,DNS:node0" \
	-keyout "$dir/key" -out "$dir/cert" 2>/dev/null || fail "openssl"
head -c 32 /dev/urandom | base64 >"$dir/token"
chmod 600 "$dir/key" "$dir/token"

refused() {
	timeout 60 "$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/no" \
		--sout "soft:$net.21" --sup none "${@:2}" >"$dir/out" 2>&1
	grep -q "$1" "$dir/out" || fail "$2 $3: $(<"$dir/out")"
	[ ! -e "$dir/no/proxy.pid" ] || fail "a refused start leaves files"
}
refused 'other machines can reach it' --metrics-listen 0.0.0.0:0
refused 'other machines can reach it' --metrics-listen 0.0.0.0:0 \
	--metrics-token-file "$dir/token"
echo "no certificate" >"$dir/bad"
refused "are not a pair" --metrics-listen 127.0.0.1:0 --metrics-cert "$dir/bad" \
	--metrics-key "$dir/key" --metrics-token-file "$dir/token"

# 0.0.0.0 would listen on all of this machine's networks, so use an address of
# the test. --seccomp kill ends the proxy if TLS makes a system call that the
# filter does not allow.
pair_start --metrics-listen "$net.1:9495" --metrics-cert "$dir/cert" \
	--metrics-key "$dir/key" --metrics-token-file "$dir/token" \
	--metrics-hosts node0 --seccomp kill
at=$(sed -n 's/^ready .* https //p' "$dir/out0")
token=$(<"$dir/token")
# ask STATUS ARGUMENT...: check that curl gets this status. The answer is in
# $dir/answer.
ask() {
	local status
	status=$(curl -s --cacert "$dir/cert" -o "$dir/answer" \
		-w '%{http_code}' "${@:2}")
	[ "$status" = "$1" ] || fail "${*:2}: $status, not $1: $(<"$dir/answer")"
}
bearer=(-H "Authorization: Bearer $token")
ask 401 "https://$at/metrics"
ask 401 -H "Authorization: Bearer ${token}x" "https://$at/metrics"
ask 401 -u "me:wrong" "https://$at/"
ask 200 "${bearer[@]}" "https://$at/metrics"
grep -q '^mpib_rail_up{rail="SUP"} 1$' "$dir/answer" || fail "no metrics"
ask 200 -u "me:$token" "https://$at/stats.json"
ask 200 "${bearer[@]}" --resolve "node0:${at#*:}:$net.1" \
	"https://node0:${at#*:}/metrics"
ask 403 "${bearer[@]}" -H 'Host: evil.example' "https://$at/metrics"
ask 000 "http://$at/metrics" # no answer without TLS
if ! command -v prometheus >/dev/null; then
	echo "SKIPPED: Prometheus is not installed (package prometheus)"
	[ "$failed" -eq 0 ] && exit 77
	exit 1
fi
sed -e "s,/etc/prometheus/mpib-token,$dir/token," \
	-e "s,/etc/prometheus/mpib-ca.crt,$dir/cert," \
	-e "s,/usr/share/mpib,$source/proxy/metrics/share," \
	-e "s|\"node0:9495\", \"node1:9495\"|\"$at\"|" \
	"$source/proxy/packaging/examples/prometheus.yml" >"$dir/prometheus.yml"
printf 'global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\n' \
	>>"$dir/prometheus.yml"
promtool check config "$dir/prometheus.yml" >"$dir/answer" 2>&1 ||
	fail "promtool: $(<"$dir/answer")"
prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/tsdb" \
	--web.listen-address="$net.9:9090" --log.level=warn >"$dir/prometheus" 2>&1 &
# query EXPRESSION: return whether Prometheus has a result for the expression.
query() {
	curl -s --get --data-urlencode "query=$1" \
		"http://$net.9:9090/api/v1/query" | has '"value":'
}
await query 'up{job="mpib"} == 1' || fail "up: $(<"$dir/prometheus")"
await query 'mpib_rail_up{job="mpib", rail="SUP"} == 1' || fail "no metrics"
await query 'ALERTS{alertname="MpibRailSoftware"}' || fail "there is no alert of software rails"
query 'ALERTS{alertname="MpibProxyDown"}' && fail "the proxy counts as dead"
kill -9 "$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' \
	<(ctl -j info) | head -n 1)"
await query 'ALERTS{alertname="MpibProxyDown"}' || fail "there is no alert of a dead proxy"
exit "$failed"
