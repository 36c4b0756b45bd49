/* The data behind the page: successive samples of /stats.json become rates. */
"use strict";

const query = new URLSearchParams(location.search);
const PERIOD = Math.max(200, +query.get("period") || 1000); /* ms */
const KEEP = 120; /* samples of history */

const model = {
	last: null, now: null, dt: 0,
	times: [], rails: [], clients: [], conns: [],
	live: [], /* samples taken here: {time, tx, rx (by rail, bytes/s), down, errors} */
	clientHistory: new Map(), /* id: [] */
	heat: new Map(), /* name: columns of counts by bucket */
	events: [],
	peers: [],
	hour: [], hourAsked: 0, hourPeriod: 0, /* of /history.json */
	shown: null, shownAt: 0, /* connections in the table */
	cluster: null, clusterAsked: 0, /* of /cluster.json */
};

const grown = (now, was) => Math.max(0, (now || 0) - (was || 0)) / model.dt;
const total = (o) => Object.values(o || {}).reduce((a, b) => a + b, 0);
const byKey = (list, key) => new Map((list || []).map((x) => [key(x), x]));

function push(list, value, keep = KEEP) {
	list.push(value);
	while (list.length > keep)
		list.shift();
}

/* Counters {"sout": n, ...} of two samples, on the device net, as rates in the
 * order of all rails. */
function railRates(now, was, net) {
	return model.now.rails.map((r) => {
		if (r.net !== net)
			return 0;
		const key = r.name.toLowerCase();
		return grown((now || {})[key], (was || {})[key]);
	});
}

function takeRails(now, was) {
	const old = byKey(was.rails, (r) => r.label);
	model.rails = now.rails.map((r) => {
		const o = old.get(r.label) || r;
		return {
			...r,
			name: r.label, rail: r.name,
			tx: grown(r.tx_bytes, o.tx_bytes), rx: grown(r.rx_bytes, o.rx_bytes),
			wrs: grown(r.tx_wrs, o.tx_wrs), arrived: grown(r.rx_imms, o.rx_imms),
		};
	});
	const sum = model.rails.reduce((a, r) => a + r.tx, 0);
	for (const r of model.rails) {
		r.share = sum > 0 ? r.tx / sum : 0;
		r.rated = r.speed_mbps ? r.tx / (r.speed_mbps * 125000) : 0;
	}
	const by = (key) => Object.fromEntries(model.rails.map((r) => [r.name, r[key]]));
	push(model.live, { time: now.time, tx: by("tx"), rx: by("rx"), errors: 0,
		down: model.rails.filter((r) => r.state !== "active" || r.drained).map((r) => r.name) });
}

function takeClients(now, was) {
	const old = byKey(was.clients, (c) => c.id);
	model.clients = now.clients.map((c) => {
		const o = old.get(c.id) || c;
		const tx = railRates(c.tx_bytes, o.tx_bytes, c.net);
		return {
			...c, byRail: tx, tx: tx.reduce((a, b) => a + b, 0),
			rx: grown(total(c.rx_bytes), total(o.rx_bytes)),
		};
	});
	for (const c of model.clients) {
		if (!model.clientHistory.has(c.id))
			model.clientHistory.set(c.id, []);
		push(model.clientHistory.get(c.id), c.tx + c.rx, 60);
	}
	for (const id of model.clientHistory.keys()) {
		if (!now.clients.some((c) => c.id === id))
			model.clientHistory.delete(id);
	}
}

function takeConns(now, was) {
	const key = (c) => c.client + "/" + c.index;
	const old = byKey(was.conns.open, key);
	model.conns = now.conns.open.map((c) => {
		const o = old.get(key(c)) || c;
		const way = c.direction === "send" ? "tx_bytes" : "rx_bytes";
		const byRail = railRates(c[way], o[way], c.net);
		return {
			...c, byRail, rate: byRail.reduce((a, b) => a + b, 0),
			msgs: grown(c.messages, o.messages),
			stalled: grown(total(c.stalls), total(o.stalls)),
		};
	});
}

function takePeers(now, was) {
	const old = byKey(was.peers, (p) => p.peer);
	model.peers = (now.peers || []).map((p) => {
		const o = old.get(p.peer) || p;
		return {
			...p, tx: grown(total(p.tx_bytes), total(o.tx_bytes)),
			rx: grown(total(p.rx_bytes), total(o.rx_bytes)),
		};
	});
}

function takeShards(now, was) {
	const busy = now.info.shards.map((s, i) => grown(s.time_s.busy, (was.info.shards[i] || s).time_s.busy));
	model.busy = total(busy) / Math.max(1, busy.length);
}

/* Take a sample. True when there is an earlier one, so that rates are known. */
function feed(sample) {
	const was = model.now;
	/* Another process of the proxy counts from 0. */
	const again = was && was.info.pid === sample.info.pid;
	model.last = was;
	model.now = sample;
	if (!again)
		return false;
	model.dt = sample.time - was.time;
	if (model.dt <= 0)
		return false;
	push(model.times, sample.time);
	takeRails(sample, was);
	takeClients(sample, was);
	takeConns(sample, was);
	takePeers(sample, was);
	takeShards(sample, was);
	takeHeat(sample, was);
	takeEvents(sample);
	return true;
}
