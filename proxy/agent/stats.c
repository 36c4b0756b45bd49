/* SPDX-License-Identifier: Apache-2.0 */
/* Ask a proxy's stats socket for its connections: whose they are, how they are
 * doing. */
#include "agent/stats.h"

#include "ctl/dial.h"

static void take_row(struct mpib_agent_policy *p, uint64_t pid,
		     const json_t *row)
{
	static const char *const key[MPIB_RAILS] = { "sout", "sup" };
	const json_t *slot = json_object_get(row, "hint_slot");
	const json_t *rails = json_object_get(row, "rails");
	struct mpib_agent_sample sample;
	struct mpib_agent_slot *s;
	json_int_t i = json_integer_value(slot);

	if (!json_is_integer(slot) || i < 0 || i >= MPIB_AGENT_OWN)
		return;
	s = &p->agent->slot[i];
	if (!s->users || mpib_agent_pid(s) != pid)
		return;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		const json_t *rail = json_object_get(rails, key[r]);

		sample.acked_bytes[r] = mpib_json_num(rail, "acked_bytes");
		sample.busy_ns[r] = mpib_json_num(rail, "busy_ns");
		sample.rtt_ns[r] = mpib_json_num(rail, "rtt_ns");
	}
	mpib_agent_time(s, &sample);
	s->client = (uint32_t)mpib_json_num(row, "client");
	s->index = (uint32_t)mpib_json_num(row, "index");
	if (!s->known) {
		/* Rules of users and classes may be for it from now on. */
		s->known = true;
		s->uid = (uid_t)mpib_json_num(row, "uid");
		s->class = (uint8_t)mpib_json_num(row, "traffic_class");
		s->choice.rule = NULL;
	}
	s->choice.balance = mpib_agent_balance(s, &sample);
}

bool mpib_agent_look(struct mpib_agent_policy *p, const char *run_dir,
		     char *why)
{
	json_t *rows = NULL, *row;
	struct mpib_dial d;
	size_t i;
	int rc;

	rc = mpib_dial_open(&d, run_dir);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_ask(&d, "why", &rows);
	if (rc == MPIB_EXIT_OK) {
		uint64_t pid = mpib_json_num(d.greeting, "pid");

		json_array_foreach(rows, i, row) take_row(p, pid, row);
	} else {
		snprintf(why, MPIB_AGENT_WHY, "%.250s", d.why);
	}
	json_decref(rows);
	mpib_dial_close(&d);
	return rc == MPIB_EXIT_OK;
}
