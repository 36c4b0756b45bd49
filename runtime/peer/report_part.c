/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes a node's report, a part of a peer link's message. */
#include <string.h>

#include "peer/part.h"

static void put_text(struct mpib_encoder *w, const char *text, size_t size)
{
	uint8_t n = (uint8_t)strnlen(text, size - 1);

	mpib_put8(w, n);
	mpib_put(w, text, n);
}

/* A terminal obeys control characters, and what is no ASCII is no JSON either. */
static void get_text(struct mpib_decoder *r, char *text, size_t size)
{
	uint8_t n = mpib_get8(r);

	if (n >= size) {
		r->failed = true;
		return;
	}
	mpib_get(r, text, n);
	for (unsigned i = 0; i < n; i++) {
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	}
}

static void put_rails(struct mpib_encoder *w, const struct mpib_node_report *m)
{
	mpib_put8(w, m->devices);
	mpib_put8(w, m->rails);
	for (unsigned i = 0; i < (unsigned)m->devices * m->rails; i++) {
		const struct mpib_report_rail *rail = &m->rail[i];

		put_text(w, rail->device, sizeof(rail->device));
		mpib_put8(w, rail->flags);
		mpib_put32(w, rail->speed_mbps);
		mpib_put32(w, rail->expected_mbps);
		mpib_put64(w, rail->errors);
		mpib_put64(w, rail->failovers);
	}
}

static void get_rails(struct mpib_decoder *r, struct mpib_node_report *m)
{
	m->devices = mpib_get8(r);
	m->rails = mpib_get8(r);
	if (m->rails > MPIB_RAILS ||
	    (unsigned)m->devices * m->rails > MPIB_RAILS_MAX) {
		r->failed = true;
		m->devices = m->rails = 0;
	}
	for (unsigned i = 0; i < (unsigned)m->devices * m->rails; i++) {
		struct mpib_report_rail *rail = &m->rail[i];

		get_text(r, rail->device, sizeof(rail->device));
		rail->flags = mpib_get8(r) & MPIB_REPORT_FLAGS;
		rail->speed_mbps = mpib_get32(r);
		rail->expected_mbps = mpib_get32(r);
		rail->errors = mpib_get64(r);
		rail->failovers = mpib_get64(r);
	}
}

static void get_word(struct mpib_decoder *r, struct mpib_agent_word *word)
{
	const uint8_t both = (1u << MPIB_RAILS) - 1;

	word->there = mpib_get8(r) != 0;
	word->sick = mpib_get8(r) & both;
	word->congested = mpib_get8(r) & both;
	word->maintenance = mpib_get8(r) & both;
	get_text(r, word->island, sizeof(word->island));
}

void mpib_put_report(struct mpib_encoder *w, const struct mpib_peer_msg *msg)
{
	const struct mpib_node_report *m = &msg->report;

	put_text(w, m->version, sizeof(m->version));
	put_text(w, m->host, sizeof(m->host));
	mpib_put32(w, m->uptime_s);
	mpib_put32(w, m->clients);
	mpib_put32(w, m->connections);
	mpib_put32(w, m->stuck);
	put_rails(w, m);
	put_text(w, m->slowest, sizeof(m->slowest));
	mpib_put64(w, m->slowest_mbps);
	mpib_put64(w, m->slowest_rtt_ns);
	mpib_put8(w, m->agent.there);
	mpib_put8(w, m->agent.sick);
	mpib_put8(w, m->agent.congested);
	mpib_put8(w, m->agent.maintenance);
	put_text(w, m->agent.island, sizeof(m->agent.island));
	mpib_put8(w, m->settings);
	for (unsigned i = 0; i < m->settings; i++) {
		mpib_put32(w, m->setting[i].name);
		mpib_put32(w, m->setting[i].value);
	}
}

void mpib_get_report(struct mpib_decoder *r, struct mpib_peer_msg *msg)
{
	struct mpib_node_report *m = &msg->report;

	get_text(r, m->version, sizeof(m->version));
	get_text(r, m->host, sizeof(m->host));
	m->uptime_s = mpib_get32(r);
	m->clients = mpib_get32(r);
	m->connections = mpib_get32(r);
	m->stuck = mpib_get32(r);
	get_rails(r, m);
	get_text(r, m->slowest, sizeof(m->slowest));
	m->slowest_mbps = mpib_get64(r);
	m->slowest_rtt_ns = mpib_get64(r);
	get_word(r, &m->agent);
	m->settings = mpib_get8(r);
	if (m->settings > MPIB_REPORT_SETTINGS) {
		r->failed = true;
		m->settings = 0;
	}
	for (unsigned i = 0; i < m->settings; i++) {
		m->setting[i].name = mpib_get32(r);
		m->setting[i].value = mpib_get32(r);
	}
}
