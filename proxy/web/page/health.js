/* The faults of this node and their times: the first line of the page. */
"use strict";

const SLOW_S = 5; /* a request that waits longer is reported, as by mpibctl stuck */

/* Format a time as mpibctl does: month-day hours:minutes:seconds. */
const clock = (s) => new Date(s * 1000).toLocaleString("sv").slice(5);

/* Return the time of the latest event of a kind; of one rail, if rail is given. */
function eventTime(kind, rail) {
	for (const e of [...model.events].reverse()) {
		if (e.kind === kind && (!rail || (e.rail === rail.name && e.net === rail.net)))
			return e.time;
	}
	return 0;
}

/* Return the time of the first of the latest consecutive samples for which bad() holds. */
function sinceHour(bad) {
	let since = 0;
	for (const s of [...model.hour].reverse()) {
		if (!bad(s))
			break;
		since = s.time;
	}
	return since;
}

function railProblems(r, now) {
	const list = [];
	if (r.state !== "active")
		list.push([r.label + " is " + r.state, eventTime("rail_down", r) || sinceHour((s) => s.down.includes(r.label))]);
	/* An operator or the agent drained the rail on purpose. As in the cluster's table, this is no
	 * fault. */
	if (r.drained)
		list.push([r.label + " is drained" + (r.drain_why ? ": " + r.drain_why : ""), eventTime("drain", r) || sinceHour((s) => s.down.includes(r.label)), true]);
	if (r.expected_mbps && r.speed_mbps && r.speed_mbps < r.expected_mbps)
		list.push([`${r.label} runs at ${r.speed_mbps / 1000} of ${r.expected_mbps / 1000} Gb/s`, 0]);
	return list.map(([text, since, note]) => ({ text, note, since: since && since < now ? since : 0 }));
}

/* Return faults that have ended, but may explain why a job ran badly. */
function pastProblems() {
	const list = [], bad = model.hour.filter((s) => s.errors > 0);
	if (bad.length) {
		const n = bad.reduce((a, s) => a + s.errors, 0);
		list.push({ text: `${count(n)} completion error${n > 1 ? "s" : ""}`, last: bad[bad.length - 1].time });
	}
	for (const r of model.rails.filter((x) => x.state === "active" && !x.drained)) {
		const down = model.hour.filter((s) => s.down.includes(r.label));
		if (down.length)
			list.push({ text: r.label + " was down or drained", last: down[down.length - 1].time });
	}
	return list.map((p) => ({ ...p, note: true }));
}

/* A fault of a peer is not a fault of this node. */
function clusterProblems() {
	const faulty = model.cluster ? model.cluster.nodes.filter((n) => n.faults.length && !n.self).length : 0;
	return faulty ? [{ text: faulty === 1 ? "a peer has faults" : faulty + " peers have faults", since: 0, note: true }] : [];
}

/* Return a list of {text, since}; since is 0 if unknown. With `note`, the
 * problem is not a fault that this node has now. */
function problems() {
	const now = model.now.time, list = [];
	for (const r of model.rails)
		list.push(...railProblems(r, now));
	const broken = model.conns.filter((c) => c.broken).length;
	if (broken)
		list.push({ text: `${broken} connection${broken > 1 ? "s" : ""} failed`, since: eventTime("connection_broken") });
	/* Not Math.max(...list): a call may not take so many arguments. */
	const oldest = model.conns.reduce((a, c) => (c.oldest_s > a.oldest_s ? c : a), { oldest_s: SLOW_S });
	if (oldest.peer)
		list.push({ text: `a request of client ${oldest.client} ${oldest.direction === "send" ? "to" : "from"} ` +
			oldest.peer + " waits (see mpibctl stuck)", since: now - oldest.oldest_s });
	const soft = model.rails.filter((r) => (r.provider || "").startsWith("soft"));
	if (soft.length)
		list.push({ text: "software rails, for trials only", since: 0, note: true });
	return [...list, ...clusterProblems(), ...pastProblems()];
}

function showHealth() {
	if (root.classList.contains("dead")) {
		showDead();
		return;
	}
	const list = problems(), grave = list.filter((p) => !p.note);
	const host = model.now.info.host || model.now.info.peer_link;
	$("health").className = "health " + (grave.length ? "bad" : list.length ? "note" : "ok");
	$("verdict").textContent = grave.length ? "not ok" : "ok";
	const texts = list.map((p) => p.text + (p.since ? ", since " + clock(p.since) :
		p.last ? ", last at " + clock(p.last) : ""));
	/* Write only changes, so that a screen reader reads each change
	 * once. */
	if (texts.join("\n") !== $("problems").dataset.text) {
		$("problems").dataset.text = texts.join("\n");
		$("problems").replaceChildren(...texts.map((t) => el("li", {}, t)));
	}
	document.title = host + (grave.length ? ": " + grave[0].text : ": ok") + " \u2013 mpib";
}

/* The proxy does not answer: mark the shown data as old. */
function showDead() {
	const last = model.times.length ? model.now.time : 0;
	const age = last ? Math.max(0, Math.round(Date.now() / 1000 - last)) : 0;
	const host = model.now ? model.now.info.host || model.now.info.peer_link : "";
	$("health").className = "health bad";
	$("verdict").textContent = "mpib-proxy does not answer";
	$("problems").dataset.text = "";
	$("problems").replaceChildren(el("li", {}, last ?
		`the data below is from ${clock(last)}, ${age} s ago` : "no data was shown yet"));
	document.title = (host ? host + ": " : "") + "no answer \u2013 mpib";
}
