#!/usr/bin/env bash
# live_page.sh BUILD: test the live page in headless Chromium while messages
# move. The page must show both rails, with the same numbers as the proxy. The
# first line of the page must report problems. The order of the rows must not
# change. The text is readable in the light and the dark theme at three window
# widths, and colour-blind people can tell the colours of the rails apart. The
# arrow keys select a sample, as the mouse pointer does. The page of a node with
# 8 devices of two rails and 64 clients fits into the window. The page shows when
# the proxy has ended. The script leaves page-*.png in BUILD.
set -uo pipefail
build=$1
for need in chromium chromedriver curl; do
	command -v "$need" >/dev/null && continue
	echo "SKIPPED: the live page: $need is not installed"
	exit 77
done
. "$(dirname "$0")/../support/nodes.sh"

pair_start --metrics-listen 127.0.0.1:0
http=$(sed -n 's/^ready .* http //p' "$dir/out0")
[ -n "$http" ] || fail "the ready line names no address: $(<"$dir/out0")"
pair_traffic 2

curl -s "http://$http/" >"$dir/page.html"
grep -qE 'https?://|<link rel="?stylesheet|src=' "$dir/page.html" &&
	fail "the page loads something from another host"
[ "$(curl -s -o /dev/null -w '%{http_code}' -X DELETE "http://$http/")" = 405 ] ||
	fail "a method that changes state is accepted"
[ "$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: x.example' \
	"http://$http/stats.json")" = 403 ] || fail "another host's name is accepted"
curl -s "http://$http/metrics" >"$dir/metrics"
[ "$(tail -n 1 "$dir/metrics")" = '# EOF' ] || fail "/metrics is not whole"
for some in 'mpib_request_seconds_count{direction="send"}' \
	'mpib_request_seconds_bucket{direction="recv",le="+Inf"}' \
	'mpib_rail_completion_seconds_sum{rail="SUP"}' \
	'mpib_poll_seconds_total{thread="0",state="busy"}' \
	'mpib_client_tx_bytes_total{client="2",uid="'"$(id -u)"'",rail="SUP"}'; do
	grep -F "$some " "$dir/metrics" | has ' [0-9.e-]*[1-9]' ||
		fail "nothing counts $some"
done
if command -v promtool >/dev/null; then
	out=$(promtool check metrics <"$dir/metrics" 2>&1) && [ -z "$out" ] ||
		fail "promtool: $out"
fi
# Open more simultaneous connections than the proxy allows.
for _ in $(seq 40); do
	curl -s -o /dev/null --max-time 20 "http://$http/stats.json" &
	curls+=($!)
done
wait "${curls[@]}"

# The proxy sends each peer at most one request per second, even if there are
# many visitors. Each request takes a different time, so the test counts the
# different times in the answers.
mkdir "$dir/rounds"
curls=()
asked=$SECONDS
for i in $(seq 8); do
	curl -s -o "$dir/rounds/$i" --max-time 20 "http://$http/cluster.json" &
	curls+=($!)
done
wait "${curls[@]}"
rounds=$(cat "$dir"/rounds/* | grep -o '"took_s":[0-9.]*' | sort | uniq -c)
[ "$(wc -l <<<"$rounds")" -le $((SECONDS - asked + 2)) ] &&
	[ "$(awk '{ n += $1 } END { print n }' <<<"$rounds")" -eq 8 ] ||
	fail "8 visitors, requests: $rounds"

# Use a separate user data directory, so no profile is changed.
chromedriver --port=0 >"$dir/driver" 2>&1 &
await grep -q 'started successfully on port' "$dir/driver"
port=$(sed -n 's/.*started successfully on port \([0-9]*\).*/\1/p' "$dir/driver")
session=
browser() { # METHOD PATH [BODY]
	curl -s --max-time 60 -X "$1" -H 'Content-Type: application/json' \
		${3+-d "$3"} "http://127.0.0.1:$port/session$session$2"
}
args='"--headless=new","--no-sandbox","--disable-gpu","--disable-quic",
	"--no-first-run","--disable-background-networking",
	"--disable-component-update","--disable-sync",
	"--disable-dev-shm-usage","--window-size=1600,1250",
	"--user-data-dir='$dir'/profile"'
session=/$(browser POST '' '{"capabilities":{"alwaysMatch":{
	"goog:chromeOptions":{"args":['"$args"']}}}}' |
	sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
if [ "$session" = / ]; then
	cat "$dir/driver"
	echo "chromium did not start"
	exit 1
fi
# js EXPRESSION: evaluate the JavaScript expression in the page, and print its
# value as JSON.
js() {
	local text=${1//\\/\\\\}
	text=${text//[$'\n\t']/ }
	browser POST /execute/sync \
		'{"script":"return '"${text//\"/\\\"}"'","args":[]}' |
		sed 's/^{"value":\(.*\)}$/\1/'
}
is_true() {
	[ "$(js "$1")" = true ]
}
# until_true EXPRESSION: wait until the expression is true, at most a minute.
until_true() {
	await is_true "$1" || fail "the page never shows: $1 (now $(js "document.body.innerText"))"
}
# has_both CANVAS: wait until the canvas shows the colours of both rails. Each
# colour channel may differ by 40 of 255.
has_both() {
	until_true "['--r0', '--r1'].every((name) => {
	const c = document.getElementById('$1');
	const want = css(name).slice(1).match(/../g).map((x) => parseInt(x, 16));
	const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
	for (let i = 0; i < d.length; i += 4)
		if (want.every((v, k) => Math.abs(v - d[i + k]) < 40) && d[i + 3] > 200)
			return true;
	return false; })"
}
# width PIXELS: set the width of the window.
width() {
	browser POST /goog/cdp/execute '{"cmd":"Emulation.setDeviceMetricsOverride","params":
		{"width":'"$1"',"height":1250,"deviceScaleFactor":1,"mobile":false}}' >"$dir/url"
	until_true "innerWidth === $1"
}
# readable: check that the contrast between each text and its background is at
# least 4.5 (formula of WCAG 2.1), and that nothing is wider than the window or
# its card.
readable() {
	js "(window.weak = () => {
	const rgb = (s) => { const n = s.match(/[0-9.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
	const over = (a, b) => a.slice(0, 3).map((v, i) => v * a[3] + b[i] * (1 - a[3])).concat(1);
	const behind = (e) => e ? over(rgb(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255, 1];
	const lum = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 :
		((v + 0.055) / 1.055) ** 2.4).reduce((a, v, i) => a + v * [0.2126, 0.7152, 0.0722][i], 0);
	return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() &&
		!['SCRIPT', 'OPTION'].includes(e.tagName) && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
	.map((e) => {
		const b = behind(e), x = lum(over(rgb(getComputedStyle(e).color), b)), y = lum(b);
		window.seen = (window.seen || 0) + 1;
		return [(Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05), e.textContent];
	}).filter(([ratio]) => ratio < 4.5).map(([ratio, text]) => text + ' ' + ratio.toFixed(2)).join('; '); },
	true)" >"$dir/url"
	is_true "window.weak() === '' && window.seen > 50" || fail "$1: hard to read: $(js 'window.weak()')"
	is_true "document.documentElement.scrollWidth <= innerWidth" ||
		fail "$1: wider than the window: $(js 'document.documentElement.scrollWidth')"
	is_true "$wider === ''" || fail "$1: wider than their cards: $(js "$wider")"
}
# The names of the tables that have to be scrolled sideways.
wider="[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)
	.map((e) => e.ariaLabel).join()"
# apart: check that the eight colours of rails differ for normal, red-blind and
# green-blind eyes (matrices of Machado 2009; distances in the space Oklab).
apart() {
	js "(window.near = () => {
	const times = (m, v) => [0, 3, 6].map((i) => m[i] * v[0] + m[i + 1] * v[1] + m[i + 2] * v[2]);
	const eyes = [[1, 0, 0, 0, 1, 0, 0, 0, 1],
		[0.1523, 1.0526, -0.2049, 0.1145, 0.7863, 0.0992, -0.0039, -0.0481, 1.0520],
		[0.3673, 0.8606, -0.2280, 0.2801, 0.6725, 0.0474, -0.0118, 0.0429, 0.9690]];
	const oklab = (rgb) => times([0.2105, 0.7936, -0.0041, 1.9780, -2.4286, 0.4506, 0.0259, 0.7828, -0.8087],
		times([0.4122, 0.5363, 0.0514, 0.2119, 0.6807, 0.1074, 0.0883, 0.2817, 0.6300], rgb).map(Math.cbrt));
	const rgb = (name) => { const e = el('i', {}); e.style.color = css(name); document.body.append(e);
		const list = getComputedStyle(e).color.match(/[0-9.]+/g).map((v) => (v / 255) ** 2.2); e.remove(); return list; };
	return eyes.flatMap((eye, k) => { const all = [...Array(8).keys()].map((i) => oklab(times(eye, rgb('--r' + i)).map((v) => Math.min(1, Math.max(0, v)))));
		return all.flatMap((a, i) => all.slice(0, i).map((b, j) => [Math.hypot(...a.map((v, n) => v - b[n])), k + ': ' + i + ', ' + j])); })
	.filter(([far]) => far < 0.07).map(([far, pair]) => pair + ' ' + far.toFixed(3)).join('; '); }, true)" >"$dir/url"
	is_true "window.near() === ''" || fail "$1: colours too similar: $(js 'window.near()')"
}
picture() {
	browser GET /screenshot | sed 's/^{"value":"\(.*\)"}$/\1/' |
		base64 -d >"$build/page-$1.png"
	[ "$(head -c 4 "$build/page-$1.png" | tail -c 3)" = PNG ] ||
		fail "no picture $1"
}
open_page() {
	browser POST /url '{"url":"http://'"$http/$1"'"}' >"$dir/url"
}

open_page '?theme=light&period=500'
until_true 'document.documentElement.dataset.samples > 12'
for rail in SOUT SUP; do
	until_true "model.rails.some((r) => r.label === '$rail' && r.tx_gbps > 0.01 && r.rx_gbps > 0.01)"
done
until_true "document.querySelectorAll('#clients tbody tr').length === 2"
until_true "document.querySelectorAll('#conns tbody tr').length === 4"
until_true "document.getElementById('live').textContent === 'live'"
# The page's tables must have the headings and texts of mpibctl.
for noun in 'rails -r' 'clients -r' 'conns -r' 'peers -r' devices cluster; do
	# shellcheck disable=SC2086 # words
	heads=$("$build/proxy/mpibctl" -s "$dir/n0" $noun | head -n 1 | xargs)
	[ "$(js "[...document.querySelectorAll('#${noun% -r} th')].map((h) => h.textContent).join(' ')")" = "\"$heads\"" ] ||
		fail "$noun does not have the columns $heads"
done
until_true "model.rails.every((r, i) => { const row = document.querySelector('#rails tbody').rows[i];
	return row.cells[3].textContent === number(r.tx_gbps) && row.cells[2].textContent === 'active'; })"
has_both flow
# The first line of the page must report only that the rails are software rails.
verdict="document.getElementById('verdict').textContent"
problems="document.getElementById('problems').innerText"
until_true "$verdict === 'ok'"
until_true "$problems === 'software rails, for trials only'"
until_true "document.title === '$(uname -n): ok \u2013 mpib'"
# After some more samples, row 1 must still be the same element, and the rows
# must still be sorted by connection number.
js "(window.row = document.querySelector('#conns tbody').rows[1],
	window.then = +document.documentElement.dataset.samples, true)" >"$dir/url"
until_true "document.documentElement.dataset.samples > window.then + 4"
until_true "document.querySelector('#conns tbody').rows[1] === window.row &&
	window.row.dataset.key === [...document.querySelectorAll('#conns tbody tr')]
		.map((r) => r.dataset.key).sort()[1]"
until_true "[...document.querySelectorAll('#clients tbody tr')].map((r) => +r.dataset.key)
	.every((id, i, all) => i === 0 || id > all[i - 1])"
until_true "document.querySelectorAll('#devices tbody tr').length === 1"
until_true "document.querySelectorAll('#peers tbody tr').length >= 1"
# The page must list both nodes of the cluster, its own node first.
cluster="[...document.querySelectorAll('#cluster tbody tr')]"
until_true "${cluster}.length === 2 && ${cluster}[0].cells[0].textContent === model.now.info.peer_link"
until_true "${cluster}.every((r) => r.cells[7].textContent === 'well' && r.cells[2].textContent === '2/2')"
until_true "document.getElementById('cluster-beside').textContent.startsWith('nodes: 2 well, 0 faulty')"
until_true "(delete model.cluster.slowest, TABLES[5][5]().endsWith(' ms'))"
# The page must show rates long before its second regular query.
until_true "model.hour.length >= 2"
open_page '?theme=light&period=600000'
until_true "document.documentElement.dataset.samples === '1' && model.hour.length >= 2"
# The page must show the last hour that the proxy has recorded, including the
# time before the page was loaded.
open_page '?theme=light&period=500'
until_true "model.hour.length >= 2 && model.times.length < 20"
until_true "model.hour.some((s) => s.tx_mbps.SOUT > 1 && s.rx_mbps.SUP > 1)"
until_true "document.getElementById('hour').getAttribute('aria-label').startsWith('The last hour: ')"
# A page that has stopped must not be marked as live.
js "document.getElementById('pause').click()" >"$dir/url"
until_true "document.getElementById('live').className === 'pill ' &&
	/^paused at [0-9-]{5} [0-9:]{8}/.test(document.getElementById('live').textContent)"
js "document.getElementById('pause').click()" >"$dir/url"
until_true "document.getElementById('live').textContent === 'live'"
# Arrow keys select a sample, as the mouse pointer does.
until_true "(document.getElementById('flow').focus(), document.activeElement.dispatchEvent(
	new KeyboardEvent('keydown', { key: 'ArrowLeft' })),
	document.getElementById('tip').innerText.includes('SOUT') && !document.getElementById('tip').hidden)"
js "document.activeElement.blur()" >"$dir/url"
until_true "document.getElementById('tip').hidden"
until_true "document.querySelectorAll('#clients tbody tr').length === 2"
"$build/proxy/mpibctl" -s "$dir/n0" rails drain SUP cable 17 >"$dir/drain"
# A drained rail is no fault, but the first line names it.
until_true "/^SUP is drained: cable 17, since [0-9-]{5} [0-9:]{8}/.test($problems)"
until_true "$verdict === 'ok' && document.title.includes(': ok')"
until_true "document.querySelector('#rails tr.bad').cells[2].textContent === 'drained: cable 17'"
until_true "document.getElementById('events').innerText.includes('SUP is drained')"
until_true "model.rails[1].tx_gbps < 1e-4"
"$build/proxy/mpibctl" -s "$dir/n0" rails resume SUP >"$dir/drain"
until_true "$verdict === 'ok'"
until_true "model.rails[1].tx_gbps > 0.01"
# If a peer has a different setting, the page must report it in the peer's row
# and in the first line, but not as a fault of this node.
"$build/proxy/mpibctl" -s "$dir/n1" config set lane.window 1048576 >"$dir/set" ||
	fail "config set: $(<"$dir/set")"
until_true "(model.clusterAsked = 0, ${cluster}[0].cells[7].textContent === 'settings differ (lane.window)')"
until_true "getComputedStyle(${cluster}[0].cells[7]).color !== getComputedStyle(${cluster}[1].cells[7]).color"
until_true "$verdict === 'ok' && $problems.includes('a peer has faults')"
# The legends must explain the dashed lines and the strip of faults.
until_true "[...document.querySelectorAll('.rail-legend')].every((legend) =>
	legend.innerText.replaceAll('\\n', ' ') === 'SOUT SUP SUP dashed a rail was down or drained, or had errors')"
for wide in 1400 800 400; do
	width $wide
	for theme in light dark; do
		js "setTheme('$theme')" >"$dir/url"
		until_true "document.documentElement.dataset.theme === '$theme'"
		readable "$theme, $wide"
		apart "$theme"
		picture "$theme-$wide"
		js "document.getElementById('cluster').scrollIntoView()" >"$dir/url"
		picture "cluster-$theme-$wide"
		js "scrollTo(0, 0)" >"$dir/url"
	done
	# Each row must have a visible cell for each column.
	until_true "[...document.querySelector('#clients tbody').rows[0].cells].length === 9 &&
		[...document.querySelector('#clients tbody').rows[0].cells].every((c) =>
		c.checkVisibility() && (innerWidth > 720 || c.getBoundingClientRect().right <= innerWidth))"
	until_true "${cluster}.every((r) => r.cells.length === 8 && [...r.cells].every((c) => c.checkVisibility() &&
		(innerWidth > 800 || c.getBoundingClientRect().right <= innerWidth)))"
done
"$build/proxy/mpibctl" -s "$dir/n1" config set lane.window 8388608 >"$dir/set"
until_true "(model.clusterAsked = 0, !$problems.includes('a peer has faults'))"
width 1400

# Let the page show made-up data of a larger node, with 64 clients and 8 devices.
# Each device has a standby rail. A device is lost, and a standby rail is drained.
open_page '?hold&theme=light'
js "(() => {
	const rails = [...Array(16).keys()].map((k) => { const i = k >> 1, standby = (k & 1) === 1;
		return { name: standby ? 'SUP' : 'SOUT', label: 'gpu' + i + (standby ? '.SUP' : '.SOUT'), net: 'gpu' + i, standby, pci: '0000:17:00.0',
			device: 'rdma:mlx5_' + (standby ? i ^ 1 : i), state: k === 10 ? 'lost' : 'active', down: k === 10,
			drained: k === 15, drain_why: k === 15 ? 'cable 17 of the second switch in rack 4 is bad' : '' }; });
	const by = (f) => ({ sout: f(0), sup: f(1) });
	const works = (i) => rails[i].state === 'active' && (!rails[i].standby || i === 11);
	const hour = (r) => Object.fromEntries(rails.map(({ label }, i) => [label, works(i) ? 300 + 20 * Math.sin(r / 9 + i) : 0]));
	model.hour = [...Array(720).keys()].map((r) => ({ time: 5 * (r - 719), tx: hour(r), rx: hour(r + 4), errors: 0, down: r > 600 ? ['gpu5.SOUT'] : [] }));
	model.hourPeriod = 5;
	for (let t = 1; t < 130; t++)
		feed({ time: t, info: { version: '1', pid: 1, uptime_s: t, peer_link: '10.0.0.1:24790',
			clients: 64, connections: 512, lanes: 7, shards: [{ time_s: { busy: t * 0.6 } }],
			usage: { registered_bytes: 2 ** 38 } },
		rails: rails.map((r, i) => ({ ...r, speed_mbps: 400000, tx_bytes: works(i) ? t * 4e10 + 2e10 * Math.sin(t / 9 + i) : 0,
			rx_bytes: works(i) ? t * 4.2e10 : 0, tx_wrs: t * 1e6, rx_imms: t * 1e6, cqe_errors: i === 10 ? 12 : 0, qps: 64, srq_posted: 500 })),
		devices: [...Array(8).keys()].map((i) => ({ index: i, net: 'gpu' + i, rails: rails.slice(2 * i, 2 * i + 2), clients: 8,
			why: 'device.layout: each of 8 HCAs, its neighbour in reserve' })),
		clients: [...Array(64).keys()].map((i) => ({ id: i + 1, name: 'rank' + i + ' of a job with a long name',
			pid: 4000000 + i, net: 'mpib', connections: 8, registered_bytes: 2 ** 32, tx_bytes: by((r) => t * 6e8 * (1 + (i + r) % 3)),
			rx_bytes: by(() => t * 6e8) })),
		conns: { open: [...Array(512).keys()].map((i) => ({ client: i >> 3, index: i & 7,
			direction: i & 1 ? 'send' : 'recv', peer: '10.0.0.' + (2 + i % 7) + ':24790', broken: false, net: 'mpib',
			local_rank: i >> 3, remote_rank: (i >> 3) + 1, outstanding: 8, messages: t * 1e5, stalls: { cts: t * 10 },
			tx_bytes: by(() => t * 1e8), rx_bytes: by(() => t * 1e8) })) } });
	model.cluster = { well: 118, faulty: 2, took_s: 0.0012,
		nodes: [...Array(120).keys()].map((i) => ({ peer: '10.0.0.' + i + ':24790', self: i === 0, host: 'node' + String(i).padStart(3, '0'),
			state: i === 77 ? 'silent' : 'answered', version: '0.2.0', clients: 8, connections: 512, errors: i === 50 ? 12 : 0,
			failovers: 0, stuck: 0, faults: i === 50 ? ['SUP at 100 of 400 Gb/s'] : i === 77 ? ['silent for 4.2 s'] : [],
			notes: i === 3 ? ['SUP drained'] : [], differs: [], rails: ['SOUT', 'SUP'].map((name) => ({ name, state: 'active',
				speed_mbps: i === 50 && name === 'SUP' ? 100000 : 400000, expected_mbps: 400000, drained: false, software: false })) })) };
	const start = performance.now();
	show();
	window.took = performance.now() - start;
	return true; })()" >/dev/null
until_true "document.querySelectorAll('#rails tbody tr').length === 16"
# All rails must be visible without scrolling.
until_true "((card) => card.scrollHeight <= card.clientHeight)(document.getElementById('rails').parentElement)"
until_true "$wider === ''"
until_true "$problems.includes('gpu5.SOUT is lost') && $problems.includes('gpu7.SUP is drained: cable 17 of')"
until_true "document.querySelector('#devices tr.bad').cells[2].textContent === 'lost rdma:mlx5_5'"
# No line may begin left of the axis, and no tip may leave the window.
until_true "CHARTS.every(([, span]) => samplesOf(span).every((s) => s.time >= model.now.time - span))"
until_true "(showTip(ratesText(model.live[0]), 1390, 1240), document.getElementById('tip').getBoundingClientRect().bottom <= innerHeight)"
until_true "document.querySelectorAll('.rail-legend .key').length === 18"
until_true "document.querySelectorAll('#clients tbody tr').length === 64"
# Nodes with faults must come first. The page must say how many of the 120 nodes
# it shows.
until_true "${cluster}.length === 100 && ${cluster}[0].cells[7].textContent === 'SUP at 100 of 400 Gb/s' &&
	${cluster}[1].cells[7].textContent === 'silent for 4.2 s' && ${cluster}[2].cells[1].textContent === 'node000'"
until_true "document.getElementById('cluster-beside').textContent === 'nodes: 118 well, 2 faulty; answers took 1.2 ms, 100 shown, those with faults first'"
until_true "document.documentElement.scrollWidth <= innerWidth"
until_true "window.took < 5000"
echo "16 rails, 64 clients, 512 connections: drawn in $(js 'window.took') ms"
picture large
# Set the page's data to 131072 connections: as many as two users can have,
# 65536 each. The page's first line must report a waiting request, so it must
# consider all connections.
until_true "(model.conns = Array(131072).fill({ oldest_s: 60, client: 7, direction: 'recv', peer: '10.0.0.2:24790' }),
	problems().some((p) => p.text === 'a request of client 7 from 10.0.0.2:24790 waits (see mpibctl stuck)'))"

open_page '?period=300'
until_true "document.getElementById('live').textContent === 'live'"
until_true "document.documentElement.dataset.samples > 2"
# The page must report a proxy that hangs.
kill -STOP "${pids[0]}"
until_true "$verdict === 'mpib-proxy does not answer'"
kill -CONT "${pids[0]}"
until_true "document.getElementById('live').textContent === 'live' && $verdict === 'ok'"
kill "${pids[0]}"
until_true "document.getElementById('live').textContent.includes('does not answer')"
until_true "$verdict === 'mpib-proxy does not answer'"
until_true "/the data below is from [0-9-]{5} [0-9:]{8}, [0-9]+ s ago/.test($problems)"
until_true "document.title === '$(uname -n): no answer \u2013 mpib'"
# Old data must be marked as old, even after the window has changed its size or
# the theme.
width 800
for theme in light dark; do
	js "setTheme('$theme')" >"$dir/url"
	until_true "getComputedStyle(document.querySelector('#rails td')).color ===
		getComputedStyle(document.querySelector('#rails th')).color"
	until_true "getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)'"
	until_true "$verdict === 'mpib-proxy does not answer'"
	readable "dead, $theme"
	picture "dead-$theme"
done
browser DELETE '' >/dev/null
exit "$failed"
