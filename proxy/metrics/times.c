/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in seconds: requests, completions, threads, failovers; and the number
 * of failovers. */
#include "engine/measure/times.h"

#include "metrics/families.h"

/* Each a factor of 4 wide, from 1 us. */
static const struct mpib_bounds of_node = { 10, MPIB_HIST_HIGH_BITS, 2 };
/* 16 us, 262 us, 4 ms, 67 ms, 1 s: many clients have one of these each. */
static const struct mpib_bounds of_client = { 14, 30, 4 };

static void times_one(const struct mpib_exposition *m, bool sender,
		      enum mpib_time which, struct mpib_label label)
{
	struct mpib_hist_counts h = { 0 };

	if (m->view->engine)
		mpib_engine_times(m->view->engine, sender, which, &h);
	mpib_sample_hist(m, &label, 1, &of_node, &h);
}

void mpib_fill_request_seconds(const struct mpib_exposition *m)
{
	times_one(m, true, MPIB_TIME_SUBMIT_DONE,
		  (struct mpib_label){ "direction", "send" });
	times_one(m, false, MPIB_TIME_SUBMIT_DONE,
		  (struct mpib_label){ "direction", "recv" });
}

void mpib_fill_completion_seconds(const struct mpib_exposition *m)
{
	static const enum mpib_time by_rail[MPIB_RAILS] = {
		MPIB_TIME_POST_SOUT, MPIB_TIME_POST_SUP
	};

	for (unsigned r = 0; r < m->view->snap->rails; r++)
		times_one(m, true, by_rail[r],
			  (struct mpib_label){ "rail", mpib_rail_name(r) });
}

void mpib_fill_client_seconds(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < 2 * m->clients; i++) {
		const struct mpib_exposed_client *c = &m->client[i / 2];
		bool sender = i % 2 == 0;
		const struct mpib_label label[] = {
			{ "client", c->id },
			{ "uid", c->uid },
			{ "direction", sender ? "send" : "recv" },
		};
		struct mpib_hist_counts h = { 0 };

		if (m->view->engine)
			mpib_engine_client_times(
				c->client->peer_client.engine_client, sender,
				&h);
		mpib_sample_hist(m, label, 3, &of_client, &h);
	}
}

void mpib_fill_oldest_request(const struct mpib_exposition *m)
{
	const struct mpib_snapshot *s = m->view->snap;
	uint64_t oldest = 0;

	for (uint32_t i = 0; i < s->conns; i++) {
		if (s->conn[i].oldest_ns > oldest)
			oldest = s->conn[i].oldest_ns;
	}
	mpib_sample_real(m, NULL, 0, (double)oldest / 1e9);
}

unsigned mpib_rail_labels(const struct mpib_exposition *m, unsigned rail,
			  struct mpib_label *label)
{
	const struct mpib_snapshot *s = m->view->snap;

	label[0] =
		(struct mpib_label){ "rail", mpib_rail_name(rail % s->rails) };
	if (s->devices == 1)
		return 1;
	label[1] = (struct mpib_label){ "net", m->view->rail[rail].net };
	return 2;
}

void mpib_fill_failovers(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++) {
		const struct mpib_snap_failover *n =
			&m->view->snap->rail[r].failover;
		struct mpib_label label[MPIB_RAIL_LABELS + 1];
		unsigned labels = mpib_rail_labels(m, r, label);

		for (unsigned c = MPIB_CAUSE_NONE + 1; c < MPIB_CAUSES; c++) {
			label[labels] =
				(struct mpib_label){ "cause",
						     mpib_view_cause_name(c) };
			mpib_sample(m, label, labels + 1, n->count[c]);
		}
	}
}

void mpib_fill_failover_seconds(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++) {
		struct mpib_label label[MPIB_RAIL_LABELS];
		unsigned labels = mpib_rail_labels(m, r, label);

		mpib_sample_real(
			m, label, labels,
			(double)m->view->snap->rail[r].failover.sum_ns / 1e9);
	}
}

void mpib_fill_thread_seconds(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->view->snap->shards; i++) {
		const struct mpib_snap_shard *s = &m->view->snap->shard[i];
		/* idle_ns includes slept_ns; the three states shown here are
		 * disjoint and add up to the thread's time. */
		const struct {
			const char *state;
			uint64_t ns;
		} part[] = { { "busy", s->busy_ns },
			     { "idle", s->idle_ns - s->slept_ns },
			     { "asleep", s->slept_ns } };
		char id[12];

		snprintf(id, sizeof(id), "%u", i);
		for (unsigned p = 0; p < 3; p++) {
			const struct mpib_label label[] = {
				{ "thread", id }, { "state", part[p].state }
			};

			mpib_sample_real(m, label, 2, (double)part[p].ns / 1e9);
		}
	}
}
