/* Latency histograms: what was added to each bucket since the last sample. */
"use strict";

/* One latency wherever several are kept: the whole way of a request. */
const HEAT = ["submit_done", "post_cqe", "submit_post"];

/* Rounded to buckets of a factor of 2, as a column has few pixels. */
const BOUNDS = Array.from({ length: 30 }, (_, i) => 2 ** i * 1e-7);

function takeHeat(now, was) {
	const list = now.hist || {}, old = was.hist || {};
	const name = HEAT.find((n) => list[n]);
	if (!name)
		return;
	const column = new Array(BOUNDS.length + 1).fill(0);
	const before = byKey((old[name] || {}).buckets, (b) => b.le_ns);
	for (const b of list[name].buckets) {
		const o = before.get(b.le_ns);
		const n = b.count - (o ? o.count : 0);
		let at = BOUNDS.findIndex((x) => b.le_ns * 1e-9 <= x);
		if (at < 0)
			at = BOUNDS.length;
		if (n > 0)
			column[at] += n;
	}
	model.heatName = name;
	model.bounds = BOUNDS;
	push(model.heat, column);
}

/* The latency that a share of the latest column's requests had at most. */
function quantile(share) {
	const column = model.heat[model.heat.length - 1] || [];
	const all = column.reduce((a, b) => a + b, 0);
	let sum = 0;
	for (let i = 0; i < column.length; i++) {
		sum += column[i];
		if (all > 0 && sum >= share * all)
			return BOUNDS[Math.min(i, BOUNDS.length - 1)];
	}
	return 0;
}

function takeEvents(now) {
	const list = now.events ? now.events.events : [];
	for (const e of list) {
		if (!model.events.some((x) => x.seq === e.seq))
			push(model.events, e, 200);
	}
}
