/* The page: fetch /stats.json, feed the model, show the model. */
"use strict";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
let paused = false;

function tile(id, what, text, value) {
	return el("div", { class: "tile" },
		el("div", { class: "big", id, data: { value } }, text),
		el("div", { class: "what" }, what));
}

function showTiles() {
	const sum = (f) => model.rails.reduce((a, r) => a + f(r), 0);
	const sent = sum((r) => r.tx), got = sum((r) => r.rx), errors = sum((r) => r.cqe_errors || 0);
	const info = model.now.info;
	$("tiles").replaceChildren(
		tile("sent", "sent", gbps(sent), sent),
		tile("received", "received", gbps(got), got),
		tile("clients-now", "clients", String(info.clients), info.clients),
		tile("conns-now", "connections", count(info.connections), info.connections),
		tile("lanes-now", "lanes to peers", count(info.lanes), info.lanes),
		tile("memory", "memory registered", bytes(info.usage.registered_bytes), info.usage.registered_bytes),
		tile("busy", "progress threads busy", percent(model.busy), model.busy),
		tile("errors", "completion errors ever", count(errors), errors));
}

function railFacts(r) {
	const row = (name, value) => [el("dt", {}, name), el("dd", { title: value }, value)];
	const speed = r.speed_mbps / 1000 + (r.expected_mbps ? " of " + r.expected_mbps / 1000 : "") + " Gb/s";
	return el("dl", {},
		...row("port", r.speed_mbps ? speed : "unknown speed"),
		...row("of that used", r.speed_mbps ? percent(r.rated) : "?"),
		...row("of all sent", percent(r.share)),
		...row("work requests", count(r.wrs) + "/s"),
		...row("receive completions", count(r.arrived) + "/s"),
		...row("queue pairs", count(r.qps)),
		...row("fail-overs", count(r.failovers || 0)),
		...row("completion errors", count(r.cqe_errors || 0)));
}

function showRails() {
	$("rails").replaceChildren(...model.rails.map((r, i) => {
		const up = r.state === "active" && !r.drained;
		return el("div", { class: "card rail", c: railColour(i) },
			el("h2", {}, r.name, el("span", { class: "badge " + (up ? "ok" : "no") },
				r.drained ? "drained" : r.state),
				el("span", { class: "dim mono legend" }, r.device)),
			el("div", { class: "big", data: { rail: r.name, tx: r.tx, rx: r.rx } },
				el("span", { title: "sent" }, "\u2191 " + gbps(r.tx)),
				el("span", { title: "received" }, "\u2193 " + gbps(r.rx))),
			el("div", { class: "bar" }, el("i", { c: railColour(i), style: "width: " + 100 * Math.min(1, r.rated) + "%" })),
			/* Of many rails, those alone that something happened to. */
			...(many() && up && !r.failovers && !r.cqe_errors ? [] : [railFacts(r)]));
	}));
	for (const legend of document.querySelectorAll(".rail-legend"))
		legend.replaceChildren(...model.rails.map((r, i) => [r, i]).filter(([, i]) => !isPale(i)).map(([r, i]) =>
			el("span", { class: "key", c: railColour(i) }, many() ? r.net : r.name)),
		...(many() ? [el("span", { class: "dim" }, "SUP dashed or pale")] : []));
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
	$("heat-now").textContent = p99 ? "half below " + seconds(p50) + ", 99 of 100 below " + seconds(p99) :
		"no requests lately";
	$("heat-now").dataset.p99 = p99;
	drawHeat($("heat"), choice.value);
}

function show() {
	const info = model.now.info, up = Math.floor(info.uptime_s);
	$("node").textContent = info.host || info.peer_link;
	$("about").textContent = info.peer_link + ", mpib-proxy " + info.version + ", pid " + info.pid + ", up " +
		Math.floor(up / 3600) + ":" + String(Math.floor(up / 60) % 60).padStart(2, "0") + ":" +
		String(up % 60).padStart(2, "0");
	if (!model.times.length)
		return;
	root.classList.remove("waiting"); /* first, for canvases have their width of it */
	showHealth();
	showTiles();
	showRails();
	for (const [id, span, draw, , name] of OVER_TIME)
		draw($(id), span, name);
	showHeat();
	showClients();
	showDevices();
	showPeers();
	showCluster();
	showEvents();
	showConns();
	root.dataset.samples = model.times.length;
}

function setLive(up, text) {
	$("live").className = "pill " + (up ? "up" : "down");
	$("live").textContent = text;
	root.classList.toggle("dead", !up);
	if (!up)
		showDead();
}

async function get(path) {
	const answer = await fetch(path, { cache: "no-store" });
	if (!answer.ok)
		throw new Error(await answer.text());
	return answer.json();
}

/* The last hour, as the proxy has it; it has a new sample so often. */
async function askHour() {
	const hour = await get("history.json");
	const bytesBy = (o) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, v === null ? null : v * 125e3]));
	model.hour = hour.samples.map((s) => ({ ...s, tx: bytesBy(s.tx_mbps), rx: bytesBy(s.rx_mbps) }));
	model.hourAsked = Date.now() / 1000;
	model.hourPeriod = hour.period_s;
}

async function ask() {
	try {
		if (!(Date.now() / 1000 - model.hourAsked < model.hourPeriod))
			await askHour();
		await askCluster();
		feed(await get("stats.json"));
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

/* A tip shows the rates of the sample below the pointer, or of the one that the
 * arrow keys have chosen. */
function showTip(canvas, text, x, y) {
	$("tip").hidden = !text;
	if (!text)
		return;
	$("tip").textContent = text;
	$("tip").style.left = Math.max(0, Math.min(x + 14, innerWidth - $("tip").offsetWidth - 8)) + "px";
	$("tip").style.top = y + 14 + "px";
}

function withTip(canvas, indexAt, xAt, text, length) {
	let chosen = -1;
	const show_ = (i, x, y) => showTip(canvas, text(i), x, y);
	canvas.onmousemove = (e) => {
		const box = canvas.getBoundingClientRect();
		show_(indexAt(e.clientX - box.left, box.width), e.clientX, e.clientY);
	};
	canvas.onmouseleave = canvas.onblur = () => ($("tip").hidden = true);
	canvas.onkeydown = (e) => {
		const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[e.key];
		if (!by)
			return;
		e.preventDefault();
		chosen = Math.max(0, Math.min(length() - 1, (chosen < 0 ? length() : chosen) + by));
		const box = canvas.getBoundingClientRect();
		show_(chosen, box.left + xAt(chosen, box.width), box.top + box.height / 3);
	};
}

for (const [id, span, , text] of OVER_TIME)
	withTip($(id), (x, w) => sampleAt(samplesOf(span), x, span, w), (i, w) => xOf(samplesOf(span)[i].time, span, w),
		(i) => (i < 0 || !samplesOf(span)[i] ? "" : text(samplesOf(span)[i])), () => samplesOf(span).length);

/* With "?hold" the page fetches nothing: a test calls feed() itself. */
if (!query.has("hold"))
	ask();
