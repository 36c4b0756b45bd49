/* What this node's peers say of themselves, as mpibctl cluster shows it. It is
 * asked seldom, and only while somebody looks. */
"use strict";

const CLUSTER_S = 10;
const NODES_SHOWN = 100;

/* What nodes are called, by address: by their hosts where these tell them apart. */
function nodeNames(c) {
	const many = new Map();
	for (const n of c.nodes)
		many.set(n.host, (many.get(n.host) || 0) + 1);
	return new Map(c.nodes.map((n) => [n.peer,
		!n.host ? n.peer : many.get(n.host) > 1 ? n.host + ", " + n.peer : n.host]));
}

/* What a rail is, in a few words: "SOUT 400", "SUP 100 of 400", "SUP down". */
function railWord(r) {
	if (r.state !== "active")
		return r.label + " down";
	const rated = r.speed_mbps ? r.speed_mbps / 1000 : "?";
	return r.label + " " + rated + (r.expected_mbps > r.speed_mbps ? " of " + r.expected_mbps / 1000 : "") +
		(r.drained ? ", drained" : "") + (r.software ? ", software" : "");
}

function nodeWord(n) {
	return n.faults.length ? n.faults.join("; ") : n.state === "answered" ? "ok" : n.state;
}

/* Those with faults first, and this node before its peers; then by name. */
function nodesInOrder(c, names) {
	return [...c.nodes].sort((a, b) => (b.faults.length > 0) - (a.faults.length > 0) || b.self - a.self ||
		(names.get(a.peer) < names.get(b.peer) ? -1 : 1));
}

function clusterWords(c, names) {
	const n = c.nodes.length, pair = c.slowest;
	const words = [n + (n === 1 ? " node" : " nodes"), c.faulty ? c.faulty + " with faults" : "none with faults"];
	if (pair)
		words.push("slowest pair " + (names.get(pair.from) || pair.from) + " \u2192 " +
			(names.get(pair.to) || pair.to) + ", " + pair.gbps.toFixed(1) + " Gb/s");
	if (n > NODES_SHOWN)
		words.push(NODES_SHOWN + " shown, those with faults first");
	return words.join(", ");
}

function showCluster() {
	const c = model.cluster;
	$("cluster-card").hidden = !c;
	if (!c)
		return;
	const names = nodeNames(c);
	$("cluster-count").textContent = clusterWords(c, names);
	fill("cluster", nodesInOrder(c, names).slice(0, NODES_SHOWN), (n) => n.peer, (n) => [
		{ text: names.get(n.peer) + (n.self ? " (this one)" : ""), title: n.peer },
		{ text: nodeWord(n), mark: n.faults.length ? "no" : "ok" },
		n.version || "?", (n.rails || []).map(railWord).join("; "), n.clients ?? "?", n.connections ?? "?",
		n.errors ?? "?", n.failovers ?? "?", n.stuck ?? "?",
		[...n.notes, ...(n.differs || []).map((s) => s + " differs")].join("; ")]);
}

/* A problem of the cluster is not one of this node. */
function clusterProblems() {
	const faulty = model.cluster ? model.cluster.nodes.filter((n) => n.faults.length && !n.self).length : 0;
	return faulty ? [{ text: faulty === 1 ? "a peer has faults" : faulty + " peers have faults", since: 0, past: true }] : [];
}

async function askCluster() {
	const now = Date.now() / 1000;
	if (document.hidden || now - model.clusterAsked < CLUSTER_S)
		return;
	model.clusterAsked = now;
	model.cluster = await get("cluster.json");
}
