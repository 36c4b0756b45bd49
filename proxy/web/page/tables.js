/* Tables whose rows stay where they are: a row is found again by its key, and
 * only what changed in it is written. */
"use strict";

const SHOWN = 24; /* connections */
const RESORT_S = 15; /* how long the busiest ones stay those that are shown */

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

/* The parts of what goes over each rail, to the scale of high. */
function setBar(cell, { net, parts, high }) {
	let b = cell.firstElementChild;
	if (!b)
		cell.append(b = el("div", { class: "bar" }));
	while (b.children.length < parts.length)
		b.append(el("i"));
	parts.forEach((v, i) => {
		b.children[i].style.setProperty("--c", railColour(i));
		b.children[i].style.width = (high > 0 ? 100 * v / high : 0) + "%";
	});
	cell.title = model.rails.map((r, i) => [r, parts[i]]).filter(([r]) => r.net === net || !net)
		.map(([r, v]) => r.name + " " + gbps(v)).join(", ");
}

function setCell(cell, value) {
	if (value.parts) {
		setBar(cell, value);
	} else if (value.spark) {
		if (!cell.firstElementChild)
			cell.append(el("canvas", { height: 20 }));
		drawSpark(cell.firstElementChild, value.spark, css("--r0"));
	} else {
		const text = String(value.text === undefined ? value : value.text);
		if (cell.textContent !== text)
			cell.textContent = text;
		if (value.title && cell.title !== value.title)
			cell.title = value.title;
		if (value.mark)
			cell.dataset.mark = value.mark;
	}
}

/* Make the rows those of list, in its order; cells(x) has a value for each. */
function fill(id, list, keyOf, cells) {
	const body = $(id).tBodies[0], heads = [...$(id).tHead.rows[0].cells];
	const old = new Map([...body.rows].map((r) => [r.dataset.key, r]));
	list.forEach((x, at) => {
		const key = String(keyOf(x));
		let row = old.get(key);
		old.delete(key);
		if (!row) {
			row = el("tr", { data: { key } });
			for (const h of heads)
				row.append(el("td", { class: h.className, data: { label: h.textContent.trim() } }));
		}
		if (body.rows[at] !== row)
			body.insertBefore(row, body.rows[at] || null);
		cells(x).forEach((v, i) => setCell(row.cells[i], v));
	});
	for (const row of old.values())
		row.remove();
}

function showClients() {
	const list = [...model.clients].sort((a, b) => a.id - b.id);
	const high = Math.max(1, ...list.map((c) => c.tx));
	$("clients-count").textContent = list.length ? String(list.length) : "none";
	fill("clients", list, (c) => c.id, (c) => [
		c.id, { text: c.name, title: c.name }, c.pid, c.net || "", c.connections,
		bytes(c.registered_bytes), number(c.tx), { net: c.net, parts: c.byRail, high },
		number(c.rx), { spark: model.clientHistory.get(c.id) || [] }]);
}

/* The busiest ones by client and number. Which those are is looked at only so
 * often, and when one has gone. */
function busiest() {
	const key = (c) => c.client + "/" + c.index;
	const there = byKey(model.conns, key), now = model.now.time;
	if (!model.shown || now - model.shownAt > RESORT_S || now < model.shownAt ||
	    model.shown.some((k) => !there.has(k)) || model.shown.length < Math.min(SHOWN, there.size)) {
		model.shown = [...model.conns].sort((a, b) => b.rate - a.rate ||
			a.client - b.client || a.index - b.index).slice(0, SHOWN).map(key);
		model.shownAt = now;
	}
	return model.shown.map((k) => there.get(k))
		.sort((a, b) => a.client - b.client || a.index - b.index);
}

function showConns() {
	const list = busiest(), high = Math.max(1, ...list.map((c) => c.rate)), n = model.conns.length;
	const rank = (r) => (r === null || r === undefined ? "?" : r);
	$("conns-count").textContent = n > SHOWN ? SHOWN + " of " + n : n ? String(n) : "none";
	fill("conns", list, (c) => c.client + "/" + c.index, (c) => [
		c.client, c.index, c.direction + (c.broken ? " (failed)" : ""), c.peer,
		c.local_rank === null && c.remote_rank === null ? "" :
			rank(c.local_rank) + " \u2192 " + rank(c.remote_rank),
		number(c.rate), { net: c.net, parts: c.byRail, high }, count(c.msgs), c.outstanding,
		count(c.stalled)]);
}

function showDevices() {
	fill("devices", model.now.devices || [], (d) => d.net, (d) => {
		const of = model.rails.filter((r) => r.net === d.net);
		return [d.net, of.map((r) => r.device + (r.state === "active" ? "" : " (down)")).join(", "),
			d.speed_mbps ? d.speed_mbps / 1000 : "?", d.clients,
			number(of.reduce((a, r) => a + r.tx, 0)), number(of.reduce((a, r) => a + r.rx, 0))];
	});
}

function showPeers() {
	const list = [...model.peers].sort((a, b) => (a.peer < b.peer ? -1 : 1));
	$("peers-count").textContent = list.length ? String(list.length) : "none";
	fill("peers", list, (p) => p.peer, (p) => [p.peer, p.lanes, p.connections, number(p.tx), number(p.rx)]);
}

function showEvents() {
	$("events-count").textContent = model.events.length ? String(model.events.length) : "";
	const newest = model.events.length ? model.events[model.events.length - 1].seq : 0;
	if ($("events").dataset.newest === String(newest))
		return;
	$("events").dataset.newest = newest;
	$("events").replaceChildren(...(newest ? [...model.events].reverse().map((e) =>
		el("li", { class: e.level }, el("time", {}, clock(e.time)), e.text)) :
		[el("li", { class: "none" }, "nothing has happened yet")]));
}
