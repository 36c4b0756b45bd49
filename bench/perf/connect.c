/* SPDX-License-Identifier: Apache-2.0 */
/* Making a rank's streams and connecting them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "perf/rank.h"

static void add_streams(struct perf_rank *r, bool sends)
{
	const struct perf_options *opt = &r->w->opt;
	int peer[PERF_RANKS_MAX];
	int n = perf_pattern_peers(opt, r->rank, sends, peer);

	for (int i = 0; i < n; i++) {
		for (int c = 0; c < opt->channels; c++) {
			struct perf_stream *s = &r->stream[r->nsend + r->nrecv];

			s->plug = &r->plug;
			s->sends = sends;
			s->self = r->rank;
			s->peer = peer[i];
			s->channel = c;
			s->group = opt->group;
			s->depth = (unsigned)opt->inflight;
			s->early = opt->early_completion;
			*(sends ? &r->nsend : &r->nrecv) += 1;
		}
	}
}

static bool listen_all(struct perf_rank *r, void **lcomm)
{
	for (int i = 0; i < r->nrecv; i++) {
		struct perf_stream *s = &r->stream[r->nsend + i];
		struct perf_handle *h =
			perf_world_handle(r->w, r->rank, s->peer, s->channel);

		if (!perf_rank_check(
			    r, "listen",
			    perf_plug_listen(
				    &r->plug,
				    perf_rank_device(r, s->peer, s->channel),
				    h->bytes, &lcomm[i])))
			return false;
		/* Release, pairs with the acquire in connect_one(). */
		atomic_store_explicit(&h->ready, 1, memory_order_release);
	}
	return true;
}

/* A connecting rank's copy of a handle, as NCCL keeps it. */
struct copy {
	bool here;
	char bytes[NCCL_NET_HANDLE_MAXSIZE];
};

static bool connect_one(struct perf_rank *r, struct perf_stream *s,
			struct copy *copy)
{
	struct perf_handle *h =
		perf_world_handle(r->w, s->peer, r->rank, s->channel);

	if (!atomic_load_explicit(&h->ready, memory_order_acquire))
		return true;
	/* NCCL passes the same copy of the handle to each try of connect, so a
	 * plugin may keep its state there. */
	if (!copy->here)
		memcpy(copy->bytes, h->bytes, sizeof(h->bytes));
	copy->here = true;
	return perf_rank_check(
		r, "connect",
		perf_plug_connect(&r->plug,
				  perf_rank_device(r, s->peer, s->channel),
				  copy->bytes, &s->comm));
}

static bool accept_one(struct perf_rank *r, struct perf_stream *s, void **lcomm)
{
	if (!perf_rank_check(r, "accept",
			     perf_plug_accept(&r->plug, *lcomm, &s->comm)))
		return false;
	if (!s->comm)
		return true;
	return perf_rank_check(r, "closeListen",
			       perf_plug_close_listen(&r->plug, *lcomm));
}

/* Like NCCL's Service thread: call connect or accept of each pending connection
 * again until all are connected. */
static bool connect_all(struct perf_rank *r, void **lcomm)
{
	struct copy *copy = calloc((size_t)r->nsend + 1, sizeof(*copy));
	double begun = perf_now();
	int left = r->nsend + r->nrecv;
	bool ok = copy != NULL;

	while (ok && left > 0) {
		left = 0;
		for (int i = 0; ok && i < r->nsend + r->nrecv; i++) {
			struct perf_stream *s = &r->stream[i];

			if (s->comm)
				continue;
			ok = s->sends ? connect_one(r, s, &copy[i])
				      : accept_one(r, s, &lcomm[i - r->nsend]);
			left += !s->comm;
		}
		if (left)
			sched_yield();
		if (perf_world_failed(r->w))
			ok = false;
		if (ok && perf_now() - begun > r->w->opt.timeout) {
			perf_world_fail(
				r->w, r->rank,
				"%d connections are still pending "
				"after %.0f s (mpibctl stuck names them)",
				left, r->w->opt.timeout);
			ok = false;
		}
	}
	free(copy);
	return ok;
}

bool perf_rank_connect(struct perf_rank *r)
{
	size_t most = 2 * (size_t)r->w->opt.nranks * (size_t)r->w->opt.channels;
	void **lcomm = calloc(most, sizeof(*lcomm));
	bool ok;

	r->stream = calloc(most, sizeof(*r->stream));
	if (!lcomm || !r->stream) {
		perf_world_fail(
			r->w, r->rank,
			"no memory for connections (give fewer --channels)");
		free(lcomm);
		return false;
	}
	add_streams(r, true);
	add_streams(r, false);
	ok = listen_all(r, lcomm);
	/* From other nodes the handles come with this barrier. */
	if (ok && r->w->node >= 0)
		ok = perf_world_barrier(r->w);
	ok = ok && connect_all(r, lcomm);
	free(lcomm);
	return ok;
}
