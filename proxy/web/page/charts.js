/* The charts, drawn again for each sample at the screen's own resolution. */
"use strict";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/* Of many rails those of a device have one colour; its SUP is dashed, or paler. */
const many = () => model.rails.length > 4;
const nets = () => [...new Set(model.rails.map((r) => r.net))];
const railColour = (i) => css("--r" + (many() && model.rails[i] ? nets().indexOf(model.rails[i].net) : i) % 8);
const isPale = (i) => many() && model.rails[i].rail === "SUP";
const KIB = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function bytes(n) {
	let u = 0;
	while (n >= 999.5 && u < KIB.length - 1) {
		n /= 1024;
		u++;
	}
	return (u === 0 ? n.toFixed(0) : n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)) + " " + KIB[u];
}

/* A rate in bytes a second as people who read HCAs have it. */
const number = (v) => (v < 1e3 ? "0" : 
	(v * 8e-9).toFixed(v * 8e-9 < 9.995 ? 2 : v * 8e-9 < 99.95 ? 1 : 0));
const gbps = (v) => number(v) + " Gb/s";

function count(n) {
	const units = ["", "k", "M", "G", "T"];
	let u = 0;
	while (n >= 999.5 && u < 4) {
		n /= 1000;
		u++;
	}
	return (u === 0 ? n.toFixed(n < 10 && n % 1 ? 1 : 0) : n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)) +
		(units[u] ? " " + units[u] : "");
}

const percent = (x) => (100 * x).toFixed(x < 0.0995 && x > 0 ? 1 : 0) + "%";

function seconds(s) {
	if (s < 1e-6)
		return (s * 1e9).toFixed(0) + " ns";
	if (s < 1e-3)
		return (s * 1e6).toFixed(s < 1e-5 ? 1 : 0) + " \u00b5s";
	return s < 1 ? (s * 1e3).toFixed(s < 1e-2 ? 1 : 0) + " ms" : s.toFixed(1) + " s";
}

function context(canvas) {
	const scale = window.devicePixelRatio || 1;
	const w = canvas.clientWidth || 300;
	const h = canvas.dataset.h ? +canvas.dataset.h : canvas.height;
	canvas.dataset.h = h;
	canvas.width = Math.round(w * scale);
	canvas.height = Math.round(h * scale);
	canvas.style.height = h + "px";
	const c = canvas.getContext("2d");
	c.scale(scale, scale);
	c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
	return { c, w, h };
}

/* The top of an axis for values up to n: 1, 2, 4, 5 or 8 times a power of ten. */
function ceiling(n) {
	const unit = 10 ** Math.floor(Math.log10(Math.max(n, 1e-3)));
	return [1, 2, 4, 5, 8, 10].find((step) => step * unit >= n) * unit;
}

/* What a picture shows, for who does not see it. */
function label(canvas, text) {
	canvas.setAttribute("aria-label", text);
}

function line(c, points, colour, base, dashed) {
	c.setLineDash(dashed ? [5, 3] : []);
	c.beginPath();
	points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
	c.strokeStyle = colour;
	c.lineWidth = 1.8;
	c.lineJoin = "round";
	c.stroke();
	c.setLineDash([]);
	if (base === undefined || points.length < 2)
		return;
	c.lineTo(points[points.length - 1][0], base);
	c.lineTo(points[0][0], base);
	c.closePath();
	c.globalAlpha = 0.12;
	c.fillStyle = colour;
	c.fill();
	c.globalAlpha = 1;
}

/* Of a round number, without the zeros of number(). */
const axisText = (v) => String(+(v * 8e-9).toPrecision(3));

function grid(c, w, left, rows, label) {
	c.strokeStyle = css("--line");
	c.fillStyle = css("--dim");
	c.lineWidth = 1;
	c.textAlign = "right";
	c.textBaseline = "middle";
	for (const [y, v] of rows) {
		c.beginPath();
		c.moveTo(left, Math.round(y) + 0.5);
		c.lineTo(w, Math.round(y) + 0.5);
		c.stroke();
		c.fillText(label(v), left - 8, y);
	}
}

const LEFT = 68, BOTTOM = 18;
const HOUR = 3600, LATELY = KEEP * PERIOD / 1000; /* seconds that charts show */
const xOf = (time, span, w) => LEFT + (w - LEFT) * (1 - (model.now.time - time) / span);

function timeAxis(c, w, h, span) {
	c.fillStyle = css("--dim");
	c.textBaseline = "alphabetic";
	for (const part of w < 560 ? [1, 0.5, 0] : [1, 0.75, 0.5, 0.25, 0]) {
		const ago = part * span;
		c.textAlign = part === 0 ? "right" : part === 1 ? "left" : "center";
		c.fillText(!part ? "now" : span > 600 ? ago / 60 + " min ago" : ago + " s ago",
			xOf(model.now.time - ago, span, w), h - 3);
	}
}

/* The samples of so many seconds: those of the proxy, then those taken here. */
function samplesOf(span) {
	const from = model.now.time - span, own = model.live.length ? model.live[0].time : Infinity;
	return span === HOUR ? model.hour :
		[...model.hour.filter((s) => s.time >= from && s.time < own), ...model.live];
}

/* Where the rectangle of sample i begins. */
function leftOf(list, i, span, w) {
	const before = i ? list[i - 1].time : 0;
	const period = Math.min(list[i].time - before, 2 * Math.max(model.hourPeriod, 1));
	return Math.min(xOf(list[i].time - period, span, w), xOf(list[i].time, span, w) - 1.5);
}

function sampleAt(list, x, span, w) {
	const time = model.now.time - span * (1 - (x - LEFT) / (w - LEFT));
	let best = -1;
	list.forEach((s, i) => {
		if (best < 0 || Math.abs(s.time - time) < Math.abs(list[best].time - time))
			best = i;
	});
	return best >= 0 && Math.abs(list[best].time - time) <= Math.max(5, span / 100) ? best : -1;
}

/* Sent upwards, received downwards; a strip below where something was wrong. */
function drawRates(canvas, span, name) {
	const { c, w, h } = context(canvas), list = samplesOf(span);
	const mid = (h - BOTTOM) / 2, half = mid - 8;
	const most = list.reduce((a, s) => [...Object.values(s.tx), ...Object.values(s.rx)]
		.reduce((x, v) => Math.max(x, v || 0), a), 1);
	const high = ceiling(most * 8e-9) / 8e-9;
	grid(c, w, LEFT, [[mid - half, high], [mid - half / 2, high / 2], [mid, 0],
		[mid + half / 2, high / 2], [mid + half, high]], axisText);
	timeAxis(c, w, h, span);
	c.fillStyle = css("--bad");
	list.forEach((s, i) => {
		const x = leftOf(list, i, span, w);
		if (s.errors || s.down.length)
			c.fillRect(x, h - BOTTOM - 5, xOf(s.time, span, w) - x + 0.4, 5);
	});
	model.rails.forEach((r, k) => {
		for (const [key, sign] of [["tx", -1], ["rx", 1]])
			line(c, list.filter((s) => typeof s[key][r.name] === "number").map((s) =>
				[xOf(s.time, span, w), mid + sign * half * s[key][r.name] / high]),
			railColour(k), many() ? undefined : mid, isPale(k));
	});
	label(canvas, `${name}: ${list.length} samples, of which ` +
		list.filter((s) => s.errors || s.down.length).length + " with a rail down or errors; now " +
		model.rails.map((r) => r.name + " sends " + gbps(r.tx) + ", receives " + gbps(r.rx)).join("; "));
}

/* Each rail's part of what was sent in a sample; null: nothing was. */
function sharesOf(sample) {
	const sent = model.rails.map((r) => sample.tx[r.name] || 0);
	const sum = sent.reduce((a, b) => a + b, 0);
	return sum > 0 ? sent.map((v) => v / sum) : null;
}

/* Each rail's share of the bytes sent, stacked. */
function drawShares(canvas, span, name) {
	const { c, w, h } = context(canvas), list = samplesOf(span);
	const top = 6, bottom = h - BOTTOM, all = list.map(sharesOf);
	const y = (v) => bottom - (bottom - top) * v;
	list.forEach((s, i) => {
		const x = leftOf(list, i, span, w), wide = xOf(s.time, span, w) - x + 0.4;
		(all[i] || []).reduce((base, share, k) => {
			c.fillStyle = railColour(k);
			c.globalAlpha = isPale(k) ? 0.45 : 0.85;
			c.fillRect(x, y(base + share), wide, y(base) - y(base + share));
			return base + share;
		}, 0);
	});
	c.globalAlpha = 1;
	grid(c, w, LEFT, [[y(1), 1], [y(0.5), 0.5], [y(0), 0]], percent);
	timeAxis(c, w, h, span);
	const moved = all.filter((x) => x);
	const mean = (k) => moved.reduce((a, shares) => a + shares[k], 0) / moved.length;
	label(canvas, name + ": " + (moved.length ?
		model.rails.map((r, k) => r.name + " " + percent(mean(k))).join(", ") + " in the mean" : "nothing was sent"));
}

/* What a tip says of a sample. */
function ratesText(s) {
	return clock(s.time) + "\n" + model.rails.map((r) => r.name +
		"  \u2191 " + gbps(s.tx[r.name] || 0) + "  \u2193 " + gbps(s.rx[r.name] || 0) +
		(s.down.includes(r.name) ? "  down" : "")).join("\n") +
		(s.errors ? "\n" + count(s.errors) + " errors" : "");
}

function sharesText(s) {
	const shares = sharesOf(s);
	return shares ? clock(s.time) + "\n" +
		model.rails.map((r, k) => r.name + "  " + percent(shares[k])).join("\n") : "";
}

/* The canvases over time: id, seconds, how they are drawn, what their tips say. */
const OVER_TIME = [
	["flow", LATELY, drawRates, ratesText, "Throughput by rail"],
	["split", LATELY, drawShares, sharesText, "Split of what is sent"],
	["hour", HOUR, drawRates, ratesText, "The last hour"],
	["hour-split", HOUR, drawShares, sharesText, "Split in the last hour"],
];

function drawSpark(canvas, list, colour) {
	const { c, w, h } = context(canvas);
	const high = Math.max(1, ...list);
	line(c, list.map((v, i) => [w - (list.length - 1 - i) * w / 59, h - 2 - (h - 4) * v / high]),
		colour, h - 1);
}

/* x is time, y is latency, and a darker cell stands for more requests. */
function drawHeat(canvas, name) {
	const { c, w, h } = context(canvas);
	const columns = model.heat.get(name) || [];
	let low = BOUNDS.length, top = 0, most = 1;
	for (const col of columns)
		col.forEach((n, b) => {
			if (n > 0) {
				low = Math.min(low, b);
				top = Math.max(top, b);
				most = Math.max(most, n);
			}
		});
	if (low > top) {
		c.fillStyle = css("--dim");
		c.textAlign = "center";
		c.fillText("none in the last " + LATELY + " s", w / 2, h / 2);
		return;
	}
	low = Math.max(0, low - 1);
	top = Math.min(BOUNDS.length, Math.max(top + 1, low + 5));
	const rows = top - low + 1, bottom = h - BOTTOM, high = (bottom - 6) / rows;
	$("heat-most").textContent = count(most);
	label(canvas, heatText(name) + ": " + $("heat-now").textContent);
	const rgb = css("--heat0"), wide = (w - LEFT) / (KEEP - 1);
	columns.forEach((col, i) => {
		const x = xOf(model.times[model.times.length - columns.length + i], LATELY, w);
		for (let b = low; b <= top; b++) {
			if (!col[b])
				continue;
			const strength = 0.12 + 0.88 * Math.log1p(col[b]) / Math.log1p(most);
			c.fillStyle = `rgb(${rgb} / ${strength})`;
			c.fillRect(x - wide, bottom - (b - low + 1) * high,
				wide + 0.6, high + 0.4);
		}
	});
	const marks = [];
	for (let b = low; b <= top; b += Math.max(1, Math.ceil(rows / 6)))
		marks.push([bottom - (b - low) * high, b ? BOUNDS[b - 1] * 1e-9 : 0]);
	grid(c, w, LEFT, marks, (v) => v ? seconds(v) : "0");
	timeAxis(c, w, h, LATELY);
}
