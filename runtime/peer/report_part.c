/* SPDX-License-Identifier: Apache-2.0 */
/* A node's report, a part of a peer link's message. */
#include <string.h>

#include "peer/part.h"

static void code_short(struct mpib_codec *c, char *text, size_t size)
{
	uint8_t n = (uint8_t)strnlen(text, size - 1);

	mpib_code8(c, &n);
	if (!mpib_code_bad(c, n >= size))
		mpib_code_text(c, text, n);
}

/* Those of the bits that are known here. */
static void code_bits(struct mpib_codec *c, uint8_t *v, uint8_t known)
{
	mpib_code8(c, v);
	if (!c->to)
		*v &= known;
}

static void code_rails(struct mpib_codec *c, struct mpib_node_report *m)
{
	mpib_code8(c, &m->devices);
	mpib_code8(c, &m->rails);
	if (mpib_code_bad(c, m->rails > MPIB_RAILS ||
				     (unsigned)m->devices * m->rails >
					     MPIB_RAILS_MAX))
		m->devices = m->rails = 0;
	for (unsigned i = 0; i < (unsigned)m->devices * m->rails; i++) {
		struct mpib_report_rail *rail = &m->rail[i];

		code_short(c, rail->device, sizeof(rail->device));
		code_bits(c, &rail->flags, MPIB_REPORT_FLAGS);
		mpib_code32(c, &rail->speed_mbps);
		mpib_code32(c, &rail->expected_mbps);
		mpib_code64(c, &rail->errors);
		mpib_code64(c, &rail->failovers);
	}
}

static void code_word(struct mpib_codec *c, struct mpib_agent_word *word)
{
	const uint8_t both = (1u << MPIB_RAILS) - 1;

	mpib_code_bool(c, &word->there);
	code_bits(c, &word->sick, both);
	code_bits(c, &word->congested, both);
	code_bits(c, &word->maintenance, both);
	code_short(c, word->island, sizeof(word->island));
}

void mpib_code_report(struct mpib_codec *c, struct mpib_peer_msg *msg)
{
	struct mpib_node_report *m = &msg->report;

	code_short(c, m->version, sizeof(m->version));
	code_short(c, m->host, sizeof(m->host));
	mpib_code32(c, &m->uptime_s);
	mpib_code32(c, &m->clients);
	mpib_code32(c, &m->connections);
	mpib_code32(c, &m->stuck);
	code_rails(c, m);
	code_short(c, m->slowest, sizeof(m->slowest));
	mpib_code64(c, &m->slowest_mbps);
	mpib_code64(c, &m->slowest_rtt_ns);
	code_word(c, &m->agent);
	mpib_code8(c, &m->settings);
	if (mpib_code_bad(c, m->settings > MPIB_REPORT_SETTINGS))
		m->settings = 0;
	for (unsigned i = 0; i < m->settings; i++) {
		mpib_code32(c, &m->setting[i].name);
		mpib_code32(c, &m->setting[i].value);
	}
}
