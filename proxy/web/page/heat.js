/* Heat maps of latency: a column per sample counts, by bucket, the requests
 * that ended since the sample before. */
"use strict";

/* Bounds in ns, a factor of two apart; a column has no pixels for more. */
const BOUNDS = Array.from({ length: 27 }, (_, i) => 2 ** (i + 8));

function takeHeat(now, was) {
	for (const [name, h] of Object.entries(now.hist || {})) {
		const column = new Array(BOUNDS.length + 1).fill(0);
		const old = new Map(((was.hist || {})[name] || { buckets: [] }).buckets);
		for (const [above, n] of h.buckets) {
			const more = n - (old.get(above) || 0);
			const at = above === null ? -1 : BOUNDS.findIndex((x) => above <= x);
			if (more > 0)
				column[at < 0 ? BOUNDS.length : at] += more;
		}
		if (!model.heat.has(name))
			model.heat.set(name, []);
		push(model.heat.get(name), column);
	}
}

/* A quantile of latency in seconds over the last ten columns (share 0.5 is the
 * median); 0 when they have no request. */
function quantile(name, share) {
	const sum = new Array(BOUNDS.length + 1).fill(0);
	for (const column of (model.heat.get(name) || []).slice(-10))
		column.forEach((n, i) => (sum[i] += n));
	const all = sum.reduce((a, b) => a + b, 0);
	let below = 0;
	for (let i = 0; i < sum.length; i++) {
		below += sum[i];
		if (all > 0 && below >= share * all)
			return BOUNDS[Math.min(i, BOUNDS.length - 1)] * 1e-9;
	}
	return 0;
}

function takeEvents(now) {
	const seen = new Set(model.events.map((e) => e.seq));
	for (const e of now.events ? now.events.events : []) {
		if (!seen.has(e.seq))
			push(model.events, e, 200);
	}
}
