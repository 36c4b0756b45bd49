/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency histograms of connections: see times.h. Control thread.
 */
#include "engine/measure/times.h"

#include <errno.h>

#include "engine/conn/conn.h"

void mpib_times_watch(struct engine_conn *f)
{
	TAILQ_INSERT_TAIL(&f->shard->timed, f, times_link);
	TAILQ_INSERT_TAIL(&f->client->timed, f, client_link);
}

void mpib_times_close(struct engine_conn *f)
{
	struct mpib_shard *s = f->shard;

	TAILQ_REMOVE(&s->timed, f, times_link);
	TAILQ_REMOVE(&f->client->timed, f, client_link);
	for (unsigned i = 0; i < MPIB_TIMES; i++)
		mpib_hist_read(&f->times.hist[i],
			       &s->closed_times[f->is_sender][i]);
	mpib_hist_read(&f->times.hist[MPIB_TIME_SUBMIT_DONE],
		       &f->client->closed_done[f->is_sender]);
}

void mpib_engine_times(const struct mpib_engine *engine, bool sender,
		       enum mpib_time which, struct mpib_hist_counts *sum)
{
	const struct engine_conn *f;

	for (unsigned i = 0; i < engine->shards; i++) {
		const struct mpib_shard *s = &engine->shard[i];

		mpib_hist_add(sum, &s->closed_times[sender][which]);
		TAILQ_FOREACH(f, &s->timed, times_link)
		{
			if (f->is_sender == sender)
				mpib_hist_read(&f->times.hist[which], sum);
		}
	}
}

void mpib_engine_client_times(const struct engine_client *client, bool sender,
			      struct mpib_hist_counts *sum)
{
	const struct engine_conn *f;

	mpib_hist_add(sum, &client->closed_done[sender]);
	TAILQ_FOREACH(f, &client->timed, client_link)
	{
		if (f->is_sender == sender)
			mpib_hist_read(&f->times.hist[MPIB_TIME_SUBMIT_DONE],
				       sum);
	}
}

int mpib_engine_conn_times(const struct engine_client *client, uint32_t index,
			   enum mpib_time which, struct mpib_hist_counts *sum)
{
	const struct engine_conn *f;

	TAILQ_FOREACH(f, &client->timed, client_link)
	{
		if (f->index != index)
			continue;
		mpib_hist_read(&f->times.hist[which], sum);
		return 0;
	}
	return -ENOENT;
}
