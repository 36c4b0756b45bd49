/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's shared receive queues. A device whose queue is empty answers RNR,
 * and the peer then pauses, so a queue has to outlast whatever arrives between
 * two turns: it grows by the connections that receive. The control thread says
 * how far, the shard thread fills.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/rail/tenant.h"

/* Connections that the queue grows for: as many as a client has. */
#define GROWS_FOR 1024u

uint32_t mpib_srq_size(const struct mpib_shard *s, unsigned rail)
{
	uint32_t high = s->engine->cfg.srq_high;
	uint32_t most = (uint32_t)s->rail[rail].port.dev.max_srq_wr;
	uint32_t size = high + GROWS_FOR * MPIB_SRQ_PER_CONN;

	/* The probe has compared srq.high with it. */
	return size < most ? size : most;
}

/* Other users' first receives, and QPs, keep half of the CQ, and the user's own
 * QPs half of what one may have. */
static bool srq_may_grow(const struct mpib_tenant *t, unsigned rail)
{
	const struct mpib_budget *b = &t->shard->rail[rail].budget;
	uint32_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);

	return t->promised[rail] + MPIB_SRQ_PER_CONN <=
		       mpib_srq_size(t->shard, rail) &&
	       t->promised[rail] + MPIB_SRQ_PER_CONN <=
		       mpib_tenant_most(t->shard, rail) / 2 &&
	       promised + MPIB_SRQ_PER_CONN <= b->size / 2;
}

/* What is posted cannot be taken back, so a queue never shrinks. */
static void grow_rail(struct mpib_tenant *t, unsigned rail)
{
	const struct mpib_engine_config *cfg = &t->shard->engine->cfg;
	struct mpib_budget *budget = &t->shard->rail[rail].budget;
	uint32_t wanted = cfg->srq_high + t->receivers * MPIB_SRQ_PER_CONN;

	while (t->promised[rail] < wanted && srq_may_grow(t, rail) &&
	       mpib_budget_promise(budget, t->uid, MPIB_SRQ_PER_CONN) == 0)
		t->promised[rail] += MPIB_SRQ_PER_CONN;
	/* Relaxed: the shard fills up to what it reads here, and looks again
	 * when the mailbox brings the connection. */
	atomic_store_explicit(&t->srq_low[rail],
			      t->promised[rail] - cfg->srq_high + cfg->srq_low,
			      memory_order_relaxed);
}

void mpib_srq_joined(struct mpib_tenant *t)
{
	t->receivers++;
	for (unsigned r = 0; r < t->shard->engine->cfg.rails; r++) {
		if (t->srq[r])
			grow_rail(t, r);
	}
}

void mpib_srq_left(struct mpib_tenant *t)
{
	assert(t->receivers > 0);
	t->receivers--;
}

int mpib_srq_fill(struct mpib_tenant *t, unsigned rail)
{
	const struct mpib_engine_config *cfg = &t->shard->engine->cfg;
	uint32_t full = mpib_srq_low(t, rail) + (cfg->srq_high - cfg->srq_low);
	struct ibv_recv_wr wr[32], *bad = wr;

	while (t->srq_posted[rail] < full) {
		uint32_t n = full - t->srq_posted[rail];
		struct mpib_budget *budget = &t->shard->rail[rail].budget;

		if (n > 32)
			n = 32;
		if (!mpib_budget_receive(budget, n))
			return -ENOSPC;
		memset(wr, 0, n * sizeof(wr[0]));
		for (uint32_t i = 0; i + 1 < n; i++)
			wr[i].next = &wr[i + 1];
		if (ibv_post_srq_recv(t->srq[rail], wr, &bad)) {
			/* The device has those before bad. */
			uint32_t taken = (uint32_t)(bad - wr);

			mpib_budget_received(budget, n - taken);
			t->srq_posted[rail] += taken;
			return -EIO;
		}
		t->srq_posted[rail] += n;
	}
	return 0;
}

int mpib_srq_turn(struct mpib_shard *s)
{
	struct mpib_tenant *t;
	int filled = 0;

	s->srq_short = false;
	TAILQ_FOREACH(t, &s->tenants, link)
	{
		for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
			if (t->srq_posted[r] >= mpib_srq_low(t, r) ||
			    !t->srq[r])
				continue;
			if (mpib_srq_fill(t, r) < 0) {
				s->srq_short = true;
				continue;
			}
			s->rail[r].n.srq_refills++;
			filled++;
		}
	}
	return filled;
}

void mpib_srq_arm(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_shard *s = t->shard;
	struct ibv_srq_attr attr = { .srq_limit = s->engine->cfg.srq_low / 2 };
	int rc;

	if (attr.srq_limit == 0)
		return;
	rc = s->rail[rail].verbs->modify_srq(t->srq[rail], &attr,
					     IBV_SRQ_LIMIT);
	/* Not every device has SRQ limits; mpib_srq_turn() suffices. */
	if (rc < 0)
		mpib_debug("rail %u: no SRQ limit: %s", rail, strerror(-rc));
}
