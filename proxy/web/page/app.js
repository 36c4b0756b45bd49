/* The page: fetch /stats.json, feed the model, show the model. */
"use strict";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const query = new URLSearchParams(location.search);
const PERIOD = Math.max(200, +query.get("period") || 1000);
let paused = false;

/* Create an element. Text becomes a text node, so it is never markup. */
function el(tag, props = {}, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(props)) {
		if (k === "class")
			e.className = v;
		else if (k === "data")
			Object.assign(e.dataset, v);
		else if (k === "c")
			e.style.setProperty("--c", v);
		else
			e[k] = v;
	}
	e.append(...children);
	return e;
}

function bar(parts, high) {
	const b = el("div", { class: "bar" });
	parts.forEach((v, i) => {
		const part = el("i", { c: railColour(i) });
		part.style.width = (high > 0 ? 100 * v / high : 0) + "%";
		b.append(part);
	});
	return b;
}

function tile(id, what, text, value) {
	return el("div", { class: "tile" },
		el("div", { class: "big", id, data: { value } }, text),
		el("div", { class: "what" }, what));
}

function showTiles() {
	const sum = (f) => model.rails.reduce((a, r) => a + f(r), 0);
	const sent = sum((r) => r.tx), got = sum((r) => r.rx), errors = sum((r) => r.cqe_errors);
	const info = model.now.info;
	$("tiles").replaceChildren(
		tile("sent", "sent", bytes(sent) + "/s", sent),
		tile("received", "received", bytes(got) + "/s", got),
		tile("clients-now", "clients", String(info.clients), info.clients),
		tile("conns-now", "connections", count(info.connections), info.connections),
		tile("lanes-now", "lanes", count(info.lanes), info.lanes),
		tile("memory", "registered", bytes(info.usage.registered_bytes), info.usage.registered_bytes),
		tile("busy", "progress threads busy", percent(model.busy), model.busy),
		tile("errors", "completion errors", count(errors), errors));
}

function showRails() {
	const row = (name, value) => [el("dt", {}, name), el("dd", { title: value }, value)];
	$("rails").replaceChildren(...model.rails.map((r, i) => {
		const up = r.state === "active" && !r.drained;
		return el("div", { class: "card rail", c: railColour(i) },
			el("h2", {}, r.name, el("span", { class: "badge " + (up ? "ok" : "no") },
				r.drained ? "drained" : r.state),
				el("span", { class: "dim mono legend" }, r.device)),
			el("div", { class: "big", data: { rail: r.name, tx: r.tx, rx: r.rx } },
				el("span", {}, "\u2191 " + bytes(r.tx) + "/s"),
				el("span", {}, "\u2193 " + bytes(r.rx) + "/s")),
			bar(model.rails.map((_, k) => (k === i ? Math.min(1, r.rated) : 0)), 1),
			el("dl", {},
				...row("rated", r.speed_mbps ? percent(r.rated) + " of " + r.speed_mbps / 1000 + " Gb/s" : "?"),
				...row("of all sent", percent(r.share)),
				...row("WRs", count(r.wrs) + "/s"),
				...row("arrivals", count(r.arrived) + "/s"),
				...row("QPs, SRQ", r.qps + ", " + r.srq_posted),
				...row("errors", count(r.cqe_errors))));
	}));
	$("legend").replaceChildren(...model.rails.map((r, i) =>
		el("span", { class: "key", c: railColour(i) }, r.name)));
}

function showClients() {
	const list = [...model.clients].sort((a, b) => b.tx + b.rx - a.tx - a.rx || a.id - b.id);
	const high = Math.max(1, ...list.map((c) => c.tx));
	$("clients-count").textContent = list.length ? String(list.length) : "";
	$("clients").tBodies[0].replaceChildren(...list.map((c) => {
		const spark = el("canvas", { height: 20 });
		const row = el("tr", { data: { client: c.id } },
			el("td", { class: "n" }, String(c.id)), el("td", { class: "name", title: c.name }, c.name),
			el("td", { class: "n" }, String(c.pid)), el("td", { class: "n" }, String(c.connections)),
			el("td", { class: "n" }, bytes(c.registered_bytes)),
			el("td", { class: "n" }, bytes(c.tx)), el("td", {}, bar(c.byRail, high)),
			el("td", { class: "n" }, bytes(c.rx)), el("td", {}, spark));
		row.draw = () => drawSpark(spark, model.clientHistory.get(c.id), css("--r0"));
		return row;
	}));
	for (const row of $("clients").tBodies[0].rows)
		row.draw();
}

function showConns() {
	const list = [...model.conns].sort((a, b) => b.rate - a.rate || a.client - b.client || a.index - b.index);
	const high = Math.max(1, ...list.map((c) => c.rate));
	const rank = (r) => (r === null || r === undefined ? "?" : r);
	$("conns-count").textContent = list.length > 24 ? "24 of " + list.length : String(list.length);
	$("conns").tBodies[0].replaceChildren(...list.slice(0, 24).map((c) =>
		el("tr", {},
			el("td", { class: "n" }, String(c.client)), el("td", { class: "n" }, String(c.index)),
			el("td", {}, c.direction + (c.broken ? " (broken)" : "")), el("td", { class: "mono" }, c.peer),
			el("td", {}, c.local_rank === null && c.remote_rank === null ? "" :
				rank(c.local_rank) + " \u2192 " + rank(c.remote_rank)),
			el("td", { class: "n" }, bytes(c.rate)), el("td", {}, bar(c.byRail, high)),
			el("td", { class: "n" }, count(c.msgs)), el("td", { class: "n" }, String(c.outstanding)),
			el("td", { class: "n" }, count(c.stalled)))));
}

function showEvents() {
	$("events-count").textContent = model.events.length ? String(model.events.length) : "";
	if (!model.events.length) {
		$("events").replaceChildren(el("li", { class: "none" }, "nothing has happened yet"));
		return;
	}
	$("events").replaceChildren(...[...model.events].reverse().map((e) =>
		el("li", { class: e.level },
			el("time", {}, new Date(e.time * 1000).toLocaleTimeString([], { hour12: false })), e.text)));
}

/* "send.post_cqe.sout" becomes "send: post to cqe, SOUT". */
function heatText(name) {
	const [side, span, rail] = name.split(".");
	return side + ": " + span.replace("_", " to ") + (rail ? ", " + rail.toUpperCase() : "");
}

function showHeat() {
	const choice = $("heat-name"), names = [...model.heat.keys()];
	if (choice.options.length !== names.length) {
		choice.replaceChildren(...names.map((n) => el("option", { value: n }, heatText(n))));
		choice.value = names.includes("send.submit_done") ? "send.submit_done" : names[0];
	}
	const p50 = quantile(choice.value, 0.5), p99 = quantile(choice.value, 0.99);
	$("heat-now").textContent = p99 ? "p50 < " + seconds(p50) + "  p99 < " + seconds(p99) : "";
	$("heat-now").dataset.p99 = p99;
	drawHeat($("heat"), choice.value);
}

function show() {
	const info = model.now.info, up = Math.floor(info.uptime_s);
	$("node").textContent = info.peer_link;
	$("about").textContent = "mpib-proxy " + info.version + ", pid " + info.pid + ", up " +
		Math.floor(up / 3600) + ":" + String(Math.floor(up / 60) % 60).padStart(2, "0") + ":" +
		String(up % 60).padStart(2, "0");
	if (!model.times.length)
		return;
	showTiles();
	showRails();
	drawFlow($("flow"));
	drawSplit($("split"));
	showHeat();
	showClients();
	showEvents();
	showConns();
	root.dataset.samples = model.times.length;
}

function setLive(up, text) {
	$("live").className = "pill " + (up ? "up" : "down");
	$("live").textContent = text;
}

async function ask() {
	try {
		const answer = await fetch("stats.json", { cache: "no-store" });
		if (!answer.ok)
			throw new Error(await answer.text());
		feed(await answer.json());
		setLive(true, paused ? "paused" : "live");
		show();
	} catch (e) {
		setLive(false, "the proxy does not answer");
	}
	if (!paused)
		setTimeout(ask, PERIOD);
}

$("pause").onclick = () => {
	paused = !paused;
	$("pause").setAttribute("aria-pressed", paused);
	$("pause").textContent = paused ? "Go on" : "Pause";
	if (!paused)
		ask();
};

function setTheme(name) {
	root.dataset.theme = name;
	if (model.now)
		show();
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(query.get("theme") || (dark.matches ? "dark" : "light"));
dark.onchange = () => setTheme(dark.matches ? "dark" : "light");
$("theme").onclick = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
$("heat-name").onchange = () => model.times.length && showHeat();
window.onresize = () => model.now && show();

/* A tip beside the pointer shows the rates of the sample below it. */
$("flow").onmousemove = (e) => {
	const box = $("flow").getBoundingClientRect(), n = model.times.length;
	const i = Math.round((e.clientX - box.left - LEFT) / (box.width - LEFT) * (KEEP - 1)) - (KEEP - n);
	$("tip").hidden = i < 0 || i >= n;
	if ($("tip").hidden)
		return;
	$("tip").textContent = model.rails.map((r) => {
		const h = model.history.get(r.name), at = i - (n - h.tx.length);
		return at < 0 ? r.name : r.name + "  \u2191 " + bytes(h.tx[at]) + "/s  \u2193 " + bytes(h.rx[at]) + "/s";
	}).join("\n");
	$("tip").style.left = Math.min(e.clientX + 14, innerWidth - 260) + "px";
	$("tip").style.top = e.clientY + 14 + "px";
};
$("flow").onmouseleave = () => ($("tip").hidden = true);

/* With "?hold" the page fetches nothing: a test calls feed() itself. */
if (!query.has("hold"))
	ask();
