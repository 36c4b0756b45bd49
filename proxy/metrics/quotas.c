/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of limits: which part of each limit and quota is in use. */
#include "client/quota.h"
#include "metrics/families.h"

#define USERS 8 /* users with series of their own, longest attached first */

void mpib_fill_limits(const struct mpib_exposition *m)
{
	const struct proxy_clients *all = m->view->clients;
	const struct mpib_config *cfg = m->view->cfg;
	struct mpib_label label = { "resource", "clients" };
	double regions = 0, memory = 0;
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->region_count > regions)
			regions = s->region_count;
		if ((double)s->registered > memory)
			memory = (double)s->registered;
	}
	mpib_sample_real(m, &label, 1,
			 mpib_ratio(all->usage.attached, cfg->max_clients));
	label.value = "regions";
	mpib_sample_real(m, &label, 1, mpib_ratio(regions, cfg->max_regions));
	label.value = "memory";
	mpib_sample_real(m, &label, 1,
			 mpib_ratio(memory, (double)all->max_memory));
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
		mpib_sample_real(
			m, label, 2,
			mpib_ratio((double)mpib_quota_used(all, uid, q),
				   (double)limit));
	}
}

void mpib_fill_quotas(const struct mpib_exposition *m)
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
