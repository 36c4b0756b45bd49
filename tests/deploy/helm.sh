#!/usr/bin/env bash
# helm.sh BUILD SOURCE: check that the chart makes the objects of the examples.
# With default values, the chart makes the DaemonSet of kubernetes.yaml. If the
# values ask for them, it also makes the PodMonitor and the alerts. If helm is
# not installed, the libraries that helm uses render the chart: Go's templates
# with sprig's functions, both from Debian.
set -uo pipefail
source=$2
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
chart=$source/proxy/packaging/helm/mpib-proxy
. "$here/../support/workdir.sh"
. "$(dirname "$0")/../support/lines.sh"
skip() {
	echo "SKIPPED: the Helm chart: $*"
	exit 77
}

gopath=/usr/share/gocode
python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
if command -v helm >/dev/null; then
	helm lint "$chart" >"$dir/lint" 2>&1 || fail "helm lint: $(<"$dir/lint")"
	render() {
		helm template mpib "$chart" --namespace mpib --values "$1"
	}
else
	command -v go >/dev/null ||
		skip "there is neither helm nor go (package golang-go)"
	[ -d "$gopath/src/github.com/Masterminds/sprig" ] &&
		[ -d "$gopath/src/sigs.k8s.io/yaml" ] ||
		skip "sprig and yaml are not installed (packages \
golang-github-masterminds-sprig-dev, golang-k8s-sigs-yaml-dev)"
	HOME=$dir GO111MODULE=off GOPATH=$gopath GOCACHE=$dir/cache \
		go build -o "$dir/render" "$here/helm/render.go" >"$dir/go" 2>&1 ||
		{ cat "$dir/go"; exit 1; }
	render() {
		"$dir/render" "$chart" "$1"
	}
fi

# objects NAME: read values from standard input, and write the objects that the
# chart makes of them to $dir/NAME.
objects() {
	cat >"$dir/$1.values"
	render "$dir/$1.values" >"$dir/$1" 2>"$dir/$1.why"
}
objects default </dev/null || fail "with its own values: $(<"$dir/default.why")"
objects watched <<-VALUES || fail "watched: $(<"$dir/watched.why")"
	podMonitor: {enabled: true}
	prometheusRule: {enabled: true}
VALUES
objects bare <<-VALUES || fail "without metrics: $(<"$dir/bare.why")"
	metrics: {enabled: false}
	image: {repository: here/mpib, tag: "7", pullPolicy: Always}
	settings: {MPIB_HCA_SOUT: mlx5_0, MPIB_LANE_WINDOW: 8388608}
	nodeSelector: null
	runDir: /run/other
VALUES
objects refused <<-VALUES && fail "a PodMonitor without metrics is not refused"
	metrics: {enabled: false}
	podMonitor: {enabled: true}
VALUES
grep -q 'nothing to scrape (set metrics.enabled)' "$dir/refused.why" ||
	fail "the refusal: $(<"$dir/refused.why")"
python3 "$here/helm/objects.py" "$source/proxy" "$chart" "$dir" || failed=1
exit "$failed"
