/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's requests, from the descriptor that opens one to its completion
 * word in the reply segment. Shard thread.
 */
#include "engine/conn/take.h"

int engine_conn_feed_more(struct engine_conn *f, const struct mpib_desc *d)
{
	struct engine_request *r = &f->req[d->req];

	if (!r->active || r->gen != d->gen || r->fed != d->pos ||
	    r->total != d->total || d->len == 0)
		return -EINVAL;
	r->fed += d->len;
	return 0;
}

/* A no-op ends at once, with result 0. -EINVAL: the descriptor is none. */
int mpib_sender_take_nop(struct engine_conn *f, const struct mpib_desc *d)
{
	int rc;

	if (d->op != MPIB_OP_NOP || d->n != 1 || d->req >= MPIB_REQUESTS ||
	    d->gen == 0 || d->pos || d->len || d->total)
		return -EINVAL;
	rc = engine_conn_feed(f, d, NULL);
	if (rc < 0)
		return rc;
	engine_conn_finish(f, d->req, 0, NULL, 0);
	return 1;
}

/* None of its bytes is sent. The client may reuse their room: others of the group
 * may need it before the refused send ends with them. */
int mpib_sender_take_none(struct engine_conn *f, const struct mpib_desc *d)
{
	engine_conn_progress(f, d->req, d->pos + d->len);
	return 1;
}

void mpib_sender_refused(struct engine_conn *f, uint8_t req, uint32_t most)
{
	struct engine_request *r = &f->req[req];

	r->refused = true;
	f->completion[req].size[0] = r->total;
	f->completion[req].size[1] = most;
	engine_conn_progress(f, req, r->fed);
	mpib_match_forget(f, req);
}

void engine_conn_finish(struct engine_conn *f, unsigned req, int32_t result,
			const uint32_t *sizes, unsigned n)
{
	if (!f->req[req].active)
		return;
	for (unsigned i = 0; i < n; i++)
		f->completion[req].size[i] = sizes[i];
	engine_conn_over(f, req, result);
}

uint64_t engine_conn_oldest_ns(const struct engine_conn *f)
{
	uint64_t oldest = f->shard->now;

	for (unsigned i = 0; f->outstanding && i < MPIB_REQUESTS; i++) {
		if (f->req[i].active && f->req[i].since < oldest)
			oldest = f->req[i].since;
	}
	return f->shard->now - oldest;
}

void engine_conn_progress(struct engine_conn *f, unsigned req, uint32_t bytes)
{
	const struct engine_request *r = &f->req[req];

	if (r->active && r->multipart)
		mpib_completion_advance(&f->completion[req], r->gen, bytes);
}
