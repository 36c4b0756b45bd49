/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics that are no field of a noun: histograms of times, and quotas. */
#include "metrics/exposition.h"

#define USERS 8 /* users with series of their own, longest attached first */

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

static void fill_request_seconds(const struct mpib_exposition *m)
{
	times_one(m, true, MPIB_TIME_SUBMIT_DONE,
		  (struct mpib_label){ "direction", "send" });
	times_one(m, false, MPIB_TIME_SUBMIT_DONE,
		  (struct mpib_label){ "direction", "recv" });
}

static void fill_completion_seconds(const struct mpib_exposition *m)
{
	static const enum mpib_time by_rail[MPIB_RAILS] = {
		MPIB_TIME_POST_SOUT, MPIB_TIME_POST_SUP
	};

	for (unsigned r = 0; r < m->view->snap->rails; r++)
		times_one(m, true, by_rail[r],
			  (struct mpib_label){ "rail", mpib_rail_name(r) });
}

static void client_times(const struct mpib_exposition *m,
			 const struct proxy_client *client, bool sender)
{
	char id[12], uid[12];
	const struct mpib_label label[] = {
		{ "client", id },
		{ "uid", uid },
		{ "direction", sender ? "send" : "recv" },
	};
	struct mpib_hist_counts h = { 0 };

	snprintf(id, sizeof(id), "%u", client->id);
	snprintf(uid, sizeof(uid), "%u", client->uid);
	if (m->view->engine)
		mpib_engine_client_times(client->peer_client.engine_client,
					 sender, &h);
	mpib_sample_hist(m, label, 3, &of_client, &h);
}

static void fill_client_seconds(const struct mpib_exposition *m)
{
	const struct proxy_client *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, &m->view->clients->list, link)
	{
		if (!s->peer_client.engine_client)
			continue;
		if (n++ == MPIB_METRICS_CLIENTS)
			break;
		client_times(m, s, true);
		client_times(m, s, false);
	}
}

static void fill_user(const struct mpib_exposition *m, uid_t uid)
{
	const struct proxy_clients *all = m->view->clients;
	char text[12];

	snprintf(text, sizeof(text), "%u", uid);
	for (unsigned q = 0; q < MPIB_QUOTAS; q++) {
		const struct mpib_label label[] = {
			{ "uid", text }, { "resource", mpib_quota_name(q) }
		};
		uint64_t limit = all->most[q];

		if (q == MPIB_QUOTA_MESSAGES || limit == 0)
			continue;
		mpib_sample_real(m, label, 2,
				 (double)mpib_quota_used(all, uid, q) /
					 (double)limit);
	}
}

static void fill_quotas(const struct mpib_exposition *m)
{
	const struct proxy_client *s;
	uid_t seen[USERS];
	unsigned users = 0;

	TAILQ_FOREACH(s, &m->view->clients->list, link)
	{
		unsigned i = 0;

		while (i < users && seen[i] != s->uid)
			i++;
		if (i < users || users == USERS)
			continue;
		seen[users++] = s->uid;
		fill_user(m, s->uid);
	}
}

const struct mpib_family mpib_filled_families[] = {
	{ "request_seconds", MPIB_FAMILY_HISTOGRAM, "seconds",
	  "Time from a request's submission to its completion.",
	  .fill = fill_request_seconds },
	{ "rail_completion_seconds", MPIB_FAMILY_HISTOGRAM, "seconds",
	  "Time from a post to its completion.",
	  .fill = fill_completion_seconds },
	{ "client_request_seconds", MPIB_FAMILY_HISTOGRAM, "seconds",
	  "Time from the submission of a client's request to its completion.",
	  .fill = fill_client_seconds },
	{ "quota_used_ratio", MPIB_FAMILY_GAUGE, "ratio",
	  "Share of a user's quota that is used.", .fill = fill_quotas },
	{ 0 },
};
