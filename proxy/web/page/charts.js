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
const xOf = (i, n, w) => LEFT + (w - LEFT) * (KEEP - n + i) / (KEEP - 1);

function timeAxis(c, w, h) {
	c.fillStyle = css("--dim");
	c.textBaseline = "alphabetic";
	const whole = KEEP * PERIOD / 1000;
	for (const part of [1, 0.5, 0]) {
		const x = LEFT + (w - LEFT) * (1 - part);
		c.textAlign = part === 0 ? "right" : part === 1 ? "left" : "center";
		c.fillText(part ? part * whole + " s ago" : "now", x, h - 3);
	}
}

/* Bytes sent are drawn upwards from the middle, received ones downwards. */
function drawFlow(canvas) {
	const { c, w, h } = context(canvas);
	let high = 1;
	for (const s of model.history.values())
		high = Math.max(high, ...s.tx, ...s.rx);
	high = ceiling(high * 8e-9) / 8e-9;
	const mid = (h - BOTTOM) / 2, half = mid - 8;
	grid(c, w, LEFT, [[mid - half, high], [mid - half / 2, high / 2], [mid, 0],
		[mid + half / 2, high / 2], [mid + half, high]], axisText);
	timeAxis(c, w, h);
	label(canvas, "Throughput by rail: " + model.rails.map((r) => r.name + " sends " + gbps(r.tx) +
		", receives " + gbps(r.rx)).join("; "));
	model.rails.forEach((r, k) => {
		const s = model.history.get(r.name);
		for (const [list, sign] of [[s.tx, -1], [s.rx, 1]])
			line(c, list.map((v, i) => [xOf(i, list.length, w), mid + sign * half * v / high]),
				railColour(k), many() ? undefined : mid, isPale(k));
	});
}

/* Each rail's share of the bytes sent, stacked. */
function drawSplit(canvas) {
	const { c, w, h } = context(canvas);
	const top = 6, bottom = h - BOTTOM, n = model.times.length;
	const base = new Array(n).fill(0);
	const y = (v) => bottom - (bottom - top) * v;
	model.rails.forEach((r, k) => {
		const s = model.history.get(r.name).share;
		c.fillStyle = railColour(k);
		c.globalAlpha = isPale(k) ? 0.45 : 0.85;
		for (let i = 0; i < s.length; i++) {
			const at = n - s.length + i;
			if (s[i] === null)
				continue;
			const x = xOf(i, s.length, w), wide = (w - LEFT) / (KEEP - 1);
			c.fillRect(x - wide, y(base[at] + s[i]), wide + 0.6, y(base[at]) - y(base[at] + s[i]));
			base[at] += s[i];
		}
		c.globalAlpha = 1;
	});
	grid(c, w, LEFT, [[y(1), 1], [y(0.5), 0.5], [y(0), 0]], percent);
	timeAxis(c, w, h);
	label(canvas, "Split of what is sent: " + model.rails.map((r) => r.name + " " + percent(r.share)).join(", "));
}

/* The hour that ends now, whatever of it there is. */
const HOUR = 3600;
const hourX = (time, w) => LEFT + (w - LEFT) * (1 - (model.now.time - time) / HOUR);

function hourIndex(x, w) {
	const time = model.now.time - HOUR * (1 - (x - LEFT) / (w - LEFT));
	return model.hour.findIndex((s) => Math.abs(s.time - time) <= HOUR / (w - LEFT) + model.hourPeriod / 2);
}

function hourAxis(c, w, h) {
	c.fillStyle = css("--dim");
	c.textBaseline = "alphabetic";
	for (const minutes of w < 560 ? [60, 30, 0] : [60, 45, 30, 15, 0]) {
		c.textAlign = minutes === 60 ? "left" : minutes ? "center" : "right";
		c.fillText(minutes ? minutes + " min ago" : "now", hourX(model.now.time - minutes * 60, w), h - 3);
	}
}

/* How wide a sample is. */
const hourWide = (w) => Math.max(1.5, (w - LEFT) * model.hourPeriod / HOUR);

/* Each rail's part of what was sent in a sample of the hour; null: nothing was. */
function hourShares(sample) {
	const sent = model.rails.map((r) => sample.tx_mbps[r.name] || 0);
	const sum = sent.reduce((a, b) => a + b, 0);
	return sum > 0 ? sent.map((v) => v / sum) : null;
}

/* Stacked, as drawSplit() has it for the last seconds. */
function drawHourSplit(canvas) {
	const { c, w, h } = context(canvas);
	const top = 6, bottom = h - BOTTOM, wide = hourWide(w);
	const y = (v) => bottom - (bottom - top) * v;
	const moved = model.hour.map((s) => [s.time, hourShares(s)]).filter(([, shares]) => shares);
	for (const [time, shares] of moved)
		shares.reduce((base, share, k) => {
			c.fillStyle = railColour(k);
			c.globalAlpha = isPale(k) ? 0.45 : 0.85;
			c.fillRect(hourX(time, w) - wide, y(base + share), wide + 0.4, y(base) - y(base + share));
			return base + share;
		}, 0);
	c.globalAlpha = 1;
	grid(c, w, LEFT, [[y(1), 1], [y(0.5), 0.5], [y(0), 0]], percent);
	hourAxis(c, w, h);
	const mean = (k) => moved.reduce((a, [, shares]) => a + shares[k], 0) / moved.length;
	label(canvas, "Split in the last hour: " + (moved.length ?
		model.rails.map((r, k) => r.name + " " + percent(mean(k))).join(", ") + " in the mean" : "nothing was sent"));
}

/* Sent upwards, received downwards; a strip below where something was wrong. */
function drawHour(canvas) {
	const { c, w, h } = context(canvas);
	const mid = (h - BOTTOM) / 2, half = mid - 8, rates = model.hour.flatMap((s) =>
		[...Object.values(s.tx_mbps), ...Object.values(s.rx_mbps)]);
	const high = ceiling(rates.reduce((a, v) => Math.max(a, v || 0), 0) / 1e3) * 1e3;
	grid(c, w, LEFT, [[mid - half, high], [mid, 0], [mid + half, high]],
		(v) => axisText(v * 125e3));
	hourAxis(c, w, h);
	const wide = hourWide(w);
	c.fillStyle = css("--bad");
	for (const s of model.hour) {
		if (s.errors || s.down.length)
			c.fillRect(hourX(s.time, w) - wide, h - BOTTOM - 5, wide + 0.4, 5);
	}
	model.rails.forEach((r, k) => {
		for (const [key, sign] of [["tx_mbps", -1], ["rx_mbps", 1]])
			line(c, model.hour.filter((s) => typeof s[key][r.name] === "number").map((s) =>
				[hourX(s.time, w), mid + sign * half * s[key][r.name] / high]),
			railColour(k), many() ? undefined : mid, isPale(k));
	});
	label(canvas, `The last hour: ${model.hour.length} samples, of which ` +
		model.hour.filter((s) => s.errors || s.down.length).length + " with a rail down or errors");
}

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
		c.fillText("none in the last " + KEEP * PERIOD / 1000 + " s", w / 2, h / 2);
		return;
	}
	low = Math.max(0, low - 1);
	top = Math.min(BOUNDS.length, Math.max(top + 1, low + 5));
	const rows = top - low + 1, bottom = h - BOTTOM, high = (bottom - 6) / rows;
	$("heat-most").textContent = count(most);
	label(canvas, heatText(name) + ": " + $("heat-now").textContent);
	const rgb = css("--heat0"), wide = (w - LEFT) / (KEEP - 1);
	columns.forEach((col, i) => {
		for (let b = low; b <= top; b++) {
			if (!col[b])
				continue;
			const strength = 0.12 + 0.88 * Math.log1p(col[b]) / Math.log1p(most);
			c.fillStyle = `rgb(${rgb} / ${strength})`;
			c.fillRect(xOf(i, columns.length, w) - wide, bottom - (b - low + 1) * high,
				wide + 0.6, high + 0.4);
		}
	});
	const marks = [];
	for (let b = low; b <= top; b += Math.max(1, Math.ceil(rows / 6)))
		marks.push([bottom - (b - low) * high, b ? BOUNDS[b - 1] * 1e-9 : 0]);
	grid(c, w, LEFT, marks, (v) => v ? seconds(v) : "0");
	timeAxis(c, w, h);
}
