/* The data behind the page: successive samples of /stats.json become rates. */
"use strict";

const query = new URLSearchParams(location.search);
const PERIOD = Math.max(200, +query.get("period") || 1000); /* ms */
const KEEP = 120; /* samples of history */

const model = {
	now: null, dt: 0,
	times: [], rails: [], clients: [], conns: [], peers: [], devices: [],
	live: [], /* the page's own samples: {time, tx, rx (Gb/s by rail), down, errors} */
	events: [],
	hour: [], hourAsked: 0, hourPeriod: 0, /* from /history.json */
	shown: null, shownAt: 0, /* keys of the connections in the table */
	cluster: null, clusterAsked: 0, /* from /cluster.json */
};

/* Return the number or, if v has a number for each rail or cause, the sum. */
const total = (v) => (typeof v === "number" ? v : v === null || typeof v !== "object" ? 0 :
	Object.values(v).reduce((a, b) => a + total(b), 0));
const byKey = (list, key) => new Map((list || []).map((x) => [key(x), x]));
const connKey = (c) => c.client + "." + c.index;

function push(list, value, keep = KEEP) {
	list.push(value);
	while (list.length > keep)
		list.shift();
}

/* Add to each row the Gb/s since the previous sample, like mpibctl --rates. */
function withRates(rows, before, key) {
	const old = byKey(before, key);
	return (rows || []).map((r) => {
		const rate = (name) => Math.max(0, total(r[name]) - total((old.get(key(r)) || r)[name])) * 8e-9 / model.dt;
		return { ...r, tx_gbps: rate("tx_bytes"), rx_gbps: rate("rx_bytes") };
	});
}

function takeEvents(now) {
	const seen = new Set(model.events.map((e) => e.seq));
	for (const e of now.events ? now.events.events : []) {
		if (!seen.has(e.seq))
			push(model.events, e, 200);
	}
}

/* Store a sample. Return true if there is a previous one, so that rates are known. */
function feed(sample) {
	const was = model.now;
	model.now = sample;
	/* Another proxy process counts from 0. */
	if (!was || was.info.pid !== sample.info.pid)
		return false;
	model.dt = sample.time - was.time;
	if (model.dt <= 0)
		return false;
	push(model.times, sample.time);
	model.rails = withRates(sample.rails, was.rails, (r) => r.label);
	model.clients = withRates(sample.clients, was.clients, (c) => c.id);
	model.conns = withRates(sample.conns.open, was.conns.open, connKey);
	model.peers = withRates(sample.peers, was.peers, (p) => p.peer);
	model.devices = sample.devices || [];
	const by = (key) => Object.fromEntries(model.rails.map((r) => [r.label, r[key]]));
	push(model.live, { time: sample.time, tx: by("tx_gbps"), rx: by("rx_gbps"), errors: 0,
		down: model.rails.filter((r) => r.state !== "active" || r.drained).map((r) => r.label) });
	takeEvents(sample);
	return true;
}
