/* The charts. Each sample redraws them in the screen's resolution. */
"use strict";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/* A colour belongs to a rail, or, if there are many rails, to a device. */
const groupOf = (r) => (model.rails.length > 4 ? r.net : r.label);
const groups = () => [...new Set(model.rails.map(groupOf))];
const groupColour = (group) => css("--r" + groups().indexOf(group) % 8);
const isDashed = (r) => r.name === "SUP";

/* Format a number with three digits and a unit. */
function scaled(n, base, units) {
	let u = 0;
	for (; n >= 999.5 && u < units.length - 1; u++)
		n /= base;
	return (u === 0 ? n.toFixed(0) : n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)) + (units[u] ? " " + units[u] : "");
}

const count = (n) => scaled(n, 1000, ["", "k", "M", "G", "T"]);
/* Format a rate in Gb/s. */
const number = (v) => v.toFixed(v < 99.995 ? 2 : 1);
const gbps = (v) => number(v) + " Gb/s";

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

/* Return the top of an axis for values up to n: 1, 2, 4, 5 or 8 times a power of ten. */
function ceiling(n) {
	const unit = 10 ** Math.floor(Math.log10(Math.max(n, 1e-3)));
	return [1, 2, 4, 5, 8, 10].find((step) => step * unit >= n) * unit;
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

function grid(c, w, left, rows) {
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
		/* The value is round; number() would append zeros. */
		c.fillText(String(+v.toPrecision(3)), left - 8, y);
	}
}

const LEFT = 68, BOTTOM = 18;
const HOUR = 3600, LATELY = KEEP * PERIOD / 1000; /* time spans of the charts, in s */
const xOf = (time, span, w) => LEFT + (w - LEFT) * (1 - (model.now.time - time) / span);

/* The text at the right end of the time axis. A page that is paused, or has lost the proxy,
 * shows the time of its last sample. */
const endOfAxis = () => (paused || root.classList.contains("dead") ? clock(model.now.time).slice(6) : "now");

function timeAxis(c, w, h, span) {
	c.fillStyle = css("--dim");
	c.textBaseline = "alphabetic";
	for (const part of w < 560 ? [1, 0.5, 0] : [1, 0.75, 0.5, 0.25, 0]) {
		const ago = part * span;
		c.textAlign = part === 0 ? "right" : part === 1 ? "left" : "center";
		c.fillText(!part ? endOfAxis() : span > 600 ? ago / 60 + " min ago" : ago + " s ago",
			xOf(model.now.time - ago, span, w), h - 3);
	}
}

/* Return the samples of the last `span` seconds: the proxy's, then the page's
 * own. */
function samplesOf(span) {
	const live = span === HOUR ? [] : model.live, own = live.length ? live[0].time : Infinity;
	return [...model.hour.filter((s) => s.time < own), ...live].filter((s) => s.time >= model.now.time - span);
}

/* Return the left edge of sample i's rectangle. */
function leftOf(list, i, span, w) {
	const before = i ? list[i - 1].time : 0;
	const period = Math.min(list[i].time - before, 2 * Math.max(model.hourPeriod, 1));
	return Math.max(LEFT, Math.min(xOf(list[i].time - period, span, w), xOf(list[i].time, span, w) - 1.5));
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

/* Draw sent bytes upwards, received bytes downwards, and a strip of faults below. */
function drawRates(canvas, span, name) {
	const { c, w, h } = context(canvas), list = samplesOf(span);
	const mid = (h - BOTTOM) / 2, half = mid - 8;
	const high = ceiling(list.reduce((a, s) => [...Object.values(s.tx), ...Object.values(s.rx)]
		.reduce((x, v) => Math.max(x, v || 0), a), 0));
	grid(c, w, LEFT, [[mid - half, high], [mid - half / 2, high / 2], [mid, 0],
		[mid + half / 2, high / 2], [mid + half, high]]);
	timeAxis(c, w, h, span);
	c.fillStyle = css("--bad");
	list.forEach((s, i) => {
		const x = leftOf(list, i, span, w);
		if (s.errors || s.down.length)
			c.fillRect(x, h - BOTTOM - 5, xOf(s.time, span, w) - x + 0.4, 5);
	});
	/* Draw the dashed lines last, so that a solid line with the same values stays visible. */
	for (const r of [...model.rails].sort((a, b) => isDashed(a) - isDashed(b))) {
		for (const [key, sign] of [["tx", -1], ["rx", 1]])
			line(c, list.filter((s) => typeof s[key][r.label] === "number").map((s) =>
				[xOf(s.time, span, w), mid + sign * half * s[key][r.label] / high]),
			groupColour(groupOf(r)), model.rails.length > 4 ? undefined : mid, isDashed(r));
	}
	/* For screen readers. */
	canvas.setAttribute("aria-label", `${name}: ${list.length} samples, of which ` +
		list.filter((s) => s.errors || s.down.length).length + " with a rail down or drained, or errors; now " +
		model.rails.map((r) => r.label + " sends " + gbps(r.tx_gbps) + ", receives " + gbps(r.rx_gbps)).join("; "));
}

/* Return the text of the tip for a sample. */
function ratesText(s) {
	return clock(s.time) + "\n" + model.rails.map((r) => r.label +
		"  \u2191 " + gbps(s.tx[r.label] || 0) + "  \u2193 " + gbps(s.rx[r.label] || 0) +
		(s.down.includes(r.label) ? "  down or drained" : "")).join("\n") +
		(s.errors ? "\n" + count(s.errors) + " errors" : "");
}

/* The canvases: id, seconds, title. */
const CHARTS = [
	["flow", LATELY, "Throughput by rail"],
	["hour", HOUR, "The last hour"],
];

function showLegends() {
	for (const legend of document.querySelectorAll(".rail-legend"))
		legend.replaceChildren(...groups().map((group) => el("span", { class: "key", c: groupColour(group) }, group)),
			el("span", { class: "dim" }, model.rails.some(isDashed) ? "SUP dashed" : ""),
			el("span", { class: "key", c: css("--bad") }, "a rail was down or drained, or had errors"));
}
