/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs as JSON: those that run, and those that were the last to end. */
#include "view/fields.h"
#include "view/sums.h"

/* Add to sum what the attached clients of the job have moved until now. */
static void jobs_attached(const struct mpib_view *v,
			  const struct mpib_sums *all, uint32_t at,
			  struct mpib_job *sum)
{
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &v->clients->list, link)
	{
		const struct mpib_client_sums *sums;

		if (s->job_at != at + 1)
			continue;
		sums = mpib_sums_get(all, s->id);
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			sum->tx_bytes += sums->n[r].tx_bytes;
			sum->rx_bytes += sums->n[r].rx_bytes;
			sum->replayed_bytes += sums->n[r].replayed_bytes;
		}
		sum->messages += sums->messages;
	}
}

static json_t *jobs_job(const struct mpib_view *v, const struct mpib_sums *all,
			uint32_t at)
{
	struct mpib_job j = v->clients->jobs.job[at];

	jobs_attached(v, all, at, &j);
	return json_pack(
		"{ss so sI sI sI sf so sI sI sI sI sf}", "label", j.label,
		"job_id", mpib_field_job(j.number), "uid", (json_int_t)j.uid,
		"clients", (json_int_t)j.clients, "attached",
		(json_int_t)j.attached, "began", (double)j.began_ns / 1e9,
		"ended",
		j.ended_ns ? json_real((double)j.ended_ns / 1e9) : json_null(),
		"tx_bytes", (json_int_t)j.tx_bytes, "rx_bytes",
		(json_int_t)j.rx_bytes, "messages", (json_int_t)j.messages,
		"replayed_bytes", (json_int_t)j.replayed_bytes, "stall_s",
		(double)j.stall_ns / 1e9);
}

json_t *mpib_view_jobs(const struct mpib_view *v)
{
	struct mpib_sums *all = mpib_sums_all(v->snap);
	json_t *list;

	if (!all)
		return NULL;
	list = json_array();
	for (uint32_t i = 0; i < MPIB_JOBS; i++) {
		if (v->clients->jobs.job[i].clients)
			json_array_append_new(list, jobs_job(v, all, i));
	}
	mpib_sums_free(all);
	return list;
}
