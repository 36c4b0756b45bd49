/* The tables. They show the proxy's JSON in mpibctl's columns, which the build writes to
 * COLUMNS. A row is identified by its key, and only its changed cells are written. */
"use strict";

const CONNS_SHOWN = 24, NODES_SHOWN = 100;
const RESORT_S = 15; /* seconds until the busiest connections are chosen again */

/* A column as declared by proxy/ctl/views.c; null: not shown here. */
function SHOWN(head, text) {
	return { head, text };
}
function RATES(head, text) {
	return { head, text };
}
function WIDE() {
	return null;
}
function NO_RATES() {
	return null;
}

/* The forms of numbers in proxy/ctl/table.h. */
const FORMS = {
	bytes: (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
	count,
	rate: number,
	gbps: (n) => (n / 1000).toFixed(0),
	s: (n) => n.toFixed(1) + " s",
	ms: (n) => (n * 1e3).toFixed(1) + " ms",
	ns: (n) => scaled(n, 1000, ["ns", "\u00b5s", "ms", "s"]),
	age: (n) => (n < 100 ? n.toFixed(0) + " s" : n < 6000 ? (n / 60).toFixed(0) + " min" : (n / 3600).toFixed(0) + " h"),
};

const says = (v) => (typeof v === "object" && !Array.isArray(v) ? total(v) > 0 : Array.isArray(v) ? v.length > 0 : !!v);

function valueText(v, key, form) {
	if (v === null || v === undefined)
		return "-";
	if (typeof v === "boolean")
		return v ? key : "";
	if (Array.isArray(v))
		return v.join(form || ", ");
	return typeof v === "string" ? v : String((FORMS[form] || String)(total(v)));
}

/* Return the text of a {FIELD}, and whether the field is neither 0 nor empty. */
function fieldOf(text, row) {
	const [, quiet, names, form] = text.match(/^(\??)([^:]*):?(.*)$/);
	let value, key;
	for (const path of names.split("|")) {
		if (path.startsWith("="))
			return [path.slice(1), true];
		key = path.split(".").pop();
		value = path.split(".").reduce((o, k) => o?.[k], row);
		if (says(value))
			break;
	}
	return [quiet ? "" : valueText(value, key, form), says(value)];
}

/* Fill in a template as described in proxy/ctl/table.h. */
function fillIn(template, row) {
	return template.replace(/\[([^\]]*)\]|\{([^}]*)\}/g, (_, group, one) => {
		if (group === undefined)
			return fieldOf(one, row)[0];
		let skip = false;
		const text = group.replace(/\{([^}]*)\}/g, (all, name) => {
			const [value, some] = fieldOf(name, row);
			skip = skip || !some;
			return value;
		});
		return skip ? "" : text;
	});
}

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

/* Return the busiest connections, sorted by client and number. They are chosen again after
 * RESORT_S, or when one of them was closed. */
function busiest() {
	const there = byKey(model.conns, connKey), now = model.now.time;
	const rate = (c) => c.tx_gbps + c.rx_gbps, order = (a, b) => a.client - b.client || a.index - b.index;
	if (!model.shown || now - model.shownAt > RESORT_S || now < model.shownAt ||
	    model.shown.some((k) => !there.has(k)) || model.shown.length < Math.min(CONNS_SHOWN, there.size)) {
		model.shown = [...model.conns].sort((a, b) => rate(b) - rate(a) || order(a, b))
			.slice(0, CONNS_SHOWN).map(connKey);
		model.shownAt = now;
	}
	return model.shown.map((k) => there.get(k)).sort(order);
}

/* Nodes with faults first, and this node before its peers. */
function nodes() {
	return (model.cluster ? [...model.cluster.nodes] : []).sort((a, b) =>
		(b.faults.length > 0) - (a.faults.length > 0) || b.self - a.self).slice(0, NODES_SHOWN);
}

const ofAll = (shown, all) => (all > shown ? shown + " of " + all : String(all));

/* For each table: its noun, title, rows, the key of a row, whether a row is bad, and the
 * text after the title. */
const TABLES = [
	["rails", "Rails", () => model.rails, (r) => r.label, (r) => r.state !== "active" || r.drained],
	["devices", "Devices", () => model.devices, (d) => d.net, (d) => d.rails.some((r) => r.down)],
	["clients", "Clients", () => model.clients, (c) => c.id, null, () => ofAll(Infinity, model.clients.length)],
	["conns", "Busiest connections", busiest, connKey, (c) => c.broken, () => ofAll(CONNS_SHOWN, model.conns.length)],
	["peers", "Peers", () => model.peers, (p) => p.peer, (p) => p.refused, () => ofAll(Infinity, model.peers.length)],
	["cluster", "Cluster", nodes, (n) => n.peer, (n) => n.faults.length,
		() => (model.cluster ? LINES.cluster_below.map((line) => fillIn(line, model.cluster)).filter(Boolean).join(", ") +
			(model.cluster.nodes.length > NODES_SHOWN ? ", " + NODES_SHOWN + " shown, those with faults first" : "") : "")],
];

const columnsOf = (noun) => COLUMNS[noun].filter((c) => c);

function makeTables() {
	$("tables").append(...TABLES.map(([noun, title]) => el("section", { class: "card" },
		el("h2", {}, title + " ", el("span", { class: "dim", id: noun + "-beside" })),
		el("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: title },
			el("table", { id: noun },
				el("thead", {}, el("tr", {}, ...columnsOf(noun).map((c) => el("th",
					{ scope: "col", class: { "#": "n", "!": "text" }[c.head[0]] || "" }, c.head.replace(/^[#!]/, ""))))),
				el("tbody"))))));
}

function showTable([noun, , rows, keyOf, isBad, beside]) {
	const body = $(noun).tBodies[0], heads = [...$(noun).tHead.rows[0].cells], columns = columnsOf(noun);
	const old = new Map([...body.rows].map((r) => [r.dataset.key, r]));
	rows().forEach((x, at) => {
		const key = String(keyOf(x));
		let row = old.get(key);
		old.delete(key);
		if (!row) {
			row = el("tr", { data: { key } });
			for (const h of heads)
				row.append(el("td", { class: h.className, data: { label: h.textContent } }));
		}
		if (body.rows[at] !== row)
			body.insertBefore(row, body.rows[at] || null);
		row.classList.toggle("bad", !!(isBad && isBad(x)));
		columns.forEach((c, i) => {
			const text = fillIn(c.text, x);
			if (row.cells[i].textContent !== text)
				row.cells[i].textContent = text;
		});
	});
	for (const row of old.values())
		row.remove();
	$(noun + "-beside").textContent = beside ? beside() : "";
}

function showEvents() {
	const newest = model.events.length ? model.events[model.events.length - 1].seq : 0;
	if ($("events").dataset.newest === String(newest))
		return;
	$("events").dataset.newest = newest;
	$("events").replaceChildren(...(newest ? [...model.events].reverse().map((e) =>
		el("li", { class: e.level }, el("time", {}, clock(e.time)), e.text)) :
		[el("li", { class: "none" }, "nothing has happened yet")]));
}
