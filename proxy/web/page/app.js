/* The page: fetch /stats.json, update the model, show it. */
"use strict";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
/* Seconds between two queries of the peers while the page is visible. */
const CLUSTER_S = 10;
const TIMEOUT = 10000; /* ms; a proxy that hangs does not close the connection */
const FIRST = 200; /* ms from the first sample to the second, so that rates appear soon */
let paused = false;

function showCharts() {
	for (const [id, span, name] of CHARTS)
		drawRates($(id), span, name);
}

function show() {
	$("node").textContent = model.now.info.host || model.now.info.peer_link;
	$("about").textContent = model.now.info.peer_link + ", " + fillIn(LINES.summary_above[0], model.now.info);
	if (!model.times.length)
		return;
	root.classList.remove("waiting"); /* do this first: it sets the width of the canvases */
	showHealth();
	showLegends();
	showCharts();
	for (const table of TABLES)
		showTable(table);
	showEvents();
	root.dataset.samples = model.times.length;
}

function setLive(up, text) {
	$("live").className = "pill " + (!up ? "down" : paused ? "" : "up");
	$("live").textContent = text;
	root.classList.toggle("dead", !up);
	if (!up) {
		showDead();
		if (model.times.length)
			showCharts();
	}
}

async function get(path) {
	const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
	if (!answer.ok)
		throw new Error(await answer.text());
	return answer.json();
}

/* Fetch the last hour; the proxy has a new sample every hourPeriod seconds. */
async function askHour() {
	const hour = await get("history.json");
	const gbpsBy = (o) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, v === null ? null : v / 1000]));
	model.hour = hour.samples.map((s) => ({ ...s, tx: gbpsBy(s.tx_mbps), rx: gbpsBy(s.rx_mbps) }));
	model.hourAsked = Date.now() / 1000;
	model.hourPeriod = hour.period_s;
}

async function askCluster() {
	const now = Date.now() / 1000;
	if (document.hidden || !model.times.length || now - model.clusterAsked < CLUSTER_S)
		return;
	model.clusterAsked = now;
	model.cluster = await get("cluster.json");
}

async function ask() {
	let known = true;
	try {
		if (!(Date.now() / 1000 - model.hourAsked < model.hourPeriod))
			await askHour();
		await askCluster();
		known = feed(await get("stats.json"));
		setLive(true, paused ? "paused at " + clock(model.now.time) : "live");
		show();
	} catch (e) {
		setLive(false, "the proxy does not answer");
	}
	if (!paused)
		setTimeout(ask, known ? PERIOD : FIRST);
}

$("pause").onclick = () => {
	paused = !paused;
	$("pause").setAttribute("aria-pressed", paused);
	$("pause").textContent = paused ? "Resume" : "Pause";
	if (model.times.length)
		showCharts();
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
window.onresize = () => model.now && show();

/* A tip shows the rates of the sample under the pointer, or of the sample chosen by the
 * arrow keys. */
function showTip(text, x, y) {
	$("tip").hidden = !text;
	if (!text)
		return;
	$("tip").textContent = text;
	$("tip").style.left = Math.max(0, Math.min(x + 14, innerWidth - $("tip").offsetWidth - 8)) + "px";
	$("tip").style.top = Math.max(0, Math.min(y + 14, innerHeight - $("tip").offsetHeight - 8)) + "px";
}

function withTip(canvas, span) {
	let chosen = -1;
	const tell = (sample, x, y) => showTip(sample ? ratesText(sample) : "", x, y);
	canvas.onmousemove = (e) => {
		const box = canvas.getBoundingClientRect(), list = samplesOf(span);
		tell(list[sampleAt(list, e.clientX - box.left, span, box.width)], e.clientX, e.clientY);
	};
	canvas.onmouseleave = canvas.onblur = () => ($("tip").hidden = true);
	canvas.onkeydown = (e) => {
		const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[e.key];
		if (!by)
			return;
		e.preventDefault();
		const box = canvas.getBoundingClientRect(), list = samplesOf(span);
		chosen = Math.max(0, Math.min(list.length - 1, (chosen < 0 ? list.length : chosen) + by));
		if (list[chosen])
			tell(list[chosen], box.left + xOf(list[chosen].time, span, box.width), box.top + box.height / 3);
	};
}

makeTables();
for (const [id, span] of CHARTS)
	withTip($(id), span);

/* With "?hold" the page fetches nothing: a test calls feed(). */
if (!query.has("hold"))
	ask();
