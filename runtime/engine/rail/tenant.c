/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: a protection domain and a shared receive queue per rail (rail.c),
 * and slabs with the registered tables of the tenant's connections. The control
 * thread creates and frees them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/copy.h"
#include "base/thread.h"
#include "engine/rail/rail.h"
#include "engine/rail/tenant.h"

/* Even with a small CQ, every user may have this many CQ entries ("places")
 * besides srq.high. */
#define PLACES_LEAST 1024u

struct mpib_slab {
	LIST_ENTRY(mpib_slab) link;
	uint64_t free; /* one bit per free pair of tables */
	size_t each; /* bytes of a pair */
	char *mem;
	/* Regions of the pairs in use. */
	struct ibv_mr *mr[MPIB_TABLES_PER_SLAB][MPIB_RAILS];
};

static size_t slab_bytes(const struct mpib_slab *slab)
{
	return slab->each * MPIB_TABLES_PER_SLAB;
}

static int new_slab(struct mpib_tenant *t, size_t each, struct mpib_slab **made)
{
	struct mpib_slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return -ENOMEM;
	slab->free = UINT64_MAX;
	slab->each = each;
	slab->mem = mmap(NULL, slab_bytes(slab), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slab->mem == MAP_FAILED) {
		free(slab);
		return -ENOMEM;
	}
	mpib_numa_prefer(slab->mem, slab_bytes(slab),
			 mpib_shard_node(t->shard));
	LIST_INSERT_HEAD(&t->slabs, slab, link);
	*made = slab;
	return 0;
}

static struct mpib_slab *slab_with_room(struct mpib_tenant *t, size_t each)
{
	struct mpib_slab *slab;

	LIST_FOREACH(slab, &t->slabs, link)
	{
		if (slab->free && slab->each == each)
			return slab;
	}
	return NULL;
}

static void tables_deregister(struct mpib_tenant *t, struct mpib_slab *slab,
			      unsigned index)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct ibv_mr **mr = &slab->mr[index][r];

		if (*mr)
			t->shard->rail[r].verbs->dereg_mr(*mr);
		*mr = NULL;
	}
}

/* Register the pair as a separate region. The peer gets the region's key. With
 * the key of a larger region, the peer could write into the tables of
 * connections to other peers. */
static int tables_register(struct mpib_tenant *t, unsigned rails,
			   struct mpib_tables *tables, size_t bytes)
{
	for (unsigned r = 0; r < rails; r++) {
		struct ibv_mr **mr = &tables->slab->mr[tables->index][r];
		int rc;

		if (t->shard->rail[r].dead)
			continue;
		/* Do not use relaxed ordering: the sequence number of a CTS
		 * must arrive after the rest of the CTS. */
		rc = t->shard->rail[r].verbs->reg_mr(
			t->pd[r], tables->in, bytes,
			(uint64_t)(uintptr_t)tables->in,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, mr);
		rc = mpib_rail_made(t->shard, r, "ibv_reg_mr", rc);
		if (rc < 0)
			return rc;
		tables->lkey[r] = *mr ? (*mr)->lkey : 0;
		tables->rkey[r] = *mr ? (*mr)->rkey : 0;
	}
	return 0;
}

int mpib_tables_get(struct mpib_tenant *t, unsigned rails,
		    struct mpib_tables *tables)
{
	size_t each = (size_t)tables->in_bytes + tables->out_bytes;
	struct mpib_slab *slab = slab_with_room(t, each);
	int rc;

	if (!slab) {
		rc = new_slab(t, each, &slab);
		if (rc < 0)
			return rc;
	}
	tables->slab = slab;
	tables->index = (unsigned)__builtin_ctzll(slab->free);
	tables->in = slab->mem + tables->index * each;
	tables->out = (char *)tables->in + tables->in_bytes;
	mpib_zero_words(tables->in, each);
	rc = tables_register(t, rails, tables, each);
	if (rc < 0) {
		tables_deregister(t, slab, tables->index);
		return rc;
	}
	slab->free &= ~(1ull << tables->index);
	return 0;
}

void mpib_tables_put(struct mpib_tenant *t, struct mpib_tables *tables)
{
	tables_deregister(t, tables->slab, tables->index);
	tables->slab->free |= 1ull << tables->index;
}

/* Free a slab. Its connections may still exist if the engine is being freed. */
static void free_slab(struct mpib_tenant *t, struct mpib_slab *slab)
{
	for (unsigned i = 0; i < MPIB_TABLES_PER_SLAB; i++)
		tables_deregister(t, slab, i);
	munmap(slab->mem, slab_bytes(slab));
	free(slab);
}

static void free_tenant(struct mpib_tenant *t)
{
	struct mpib_slab *slab;

	while ((slab = LIST_FIRST(&t->slabs))) {
		LIST_REMOVE(slab, link);
		free_slab(t, slab);
	}
	mpib_loopback_free(t);
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct mpib_rail *rail = &t->shard->rail[r];

		if (t->srq[r])
			rail->verbs->destroy_srq(t->srq[r]);
		if (t->pd[r])
			rail->verbs->dealloc_pd(t->pd[r]);
		mpib_budget_release(&rail->budget, t->promised[r]);
	}
	free(t);
}

/* Shard thread. Add the tenant. If an SRQ cannot be filled now, mpib_srq_turn()
 * fills it later. */
static void on_add(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_tenant *t = call->what;

	TAILQ_INSERT_TAIL(&t->shard->tenants, t, link);
	for (unsigned r = 0; r < t->shard->engine->cfg.rails; r++) {
		if (t->srq[r] && mpib_srq_fill(t, r) < 0)
			t->shard->srq_short = true;
	}
	mpib_call_done(t->shard, call, 0);
}

static void tenant_added(void *arg, int status)
{
	struct mpib_tenant *t = arg;

	(void)status;
	for (unsigned r = 0; r < t->shard->engine->cfg.rails; r++) {
		if (t->srq[r])
			mpib_srq_arm(t, r);
	}
	mpib_tenant_put(t);
}

static int tenant_make_rail(struct mpib_tenant *t, unsigned r)
{
	struct mpib_shard *s = t->shard;
	uint32_t high = s->engine->cfg.srq_high;
	struct ibv_srq_init_attr attr = {
		.srq_context = t,
		.attr = { .max_wr = mpib_srq_size(s, r), .max_sge = 1 },
	};
	struct mpib_rail *rail = &s->rail[r];
	int rc;

	rc = mpib_budget_promise(&rail->budget, t->uid, high);
	if (rc < 0)
		return mpib_last_error_crowded(s, r,
					       "the receives of another user");
	t->promised[r] = high;
	rc = rail->verbs->alloc_pd(rail->ctx, &t->pd[r]);
	if (rc < 0)
		return mpib_rail_made(s, r, "ibv_alloc_pd", rc);
	rc = rail->verbs->create_srq(t->pd[r], &attr, &t->srq[r]);
	return mpib_rail_made(s, r, "ibv_create_srq", rc);
}

static struct mpib_tenant *tenant_find(struct mpib_engine *e, unsigned shard,
				       uid_t uid)
{
	struct mpib_tenant *t;

	for (t = e->tenants; t; t = t->next) {
		if (t->shard->index == shard && t->uid == uid)
			return t;
	}
	return NULL;
}

int mpib_tenant_get(struct mpib_engine *engine, unsigned shard, uid_t uid,
		    struct mpib_tenant **tenant)
{
	struct mpib_tenant *t = tenant_find(engine, shard, uid);
	struct mpib_shard *s = &engine->shard[shard];
	struct mpib_call *call;
	int rc;

	if (t) {
		t->refs++;
		*tenant = t;
		return 0;
	}
	rc = mpib_shard_some_rail(s);
	if (rc < 0)
		return rc;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->shard = s;
	mpib_drr_init(&t->drr, &t->shard->drrs);
	t->uid = uid;
	t->refs = 2; /* for the caller and for on_add() */
	LIST_INIT(&t->slabs);
	TAILQ_INIT(&t->submitting);
	for (unsigned r = 0; r < engine->cfg.rails; r++) {
		atomic_init(&t->srq_low[r], mpib_srq_least(&engine->cfg));
		rc = s->rail[r].dead ? 0 : tenant_make_rail(t, r);
		if (rc < 0) {
			free_tenant(t);
			return rc;
		}
	}
	t->next = engine->tenants;
	engine->tenants = t;
	call = mpib_call_new(t, tenant_added, t);
	mpib_mailbox_send(&s->mailbox, &call->msg, on_add);
	*tenant = t;
	return 0;
}

/* Return `places`, but at least the number of places that one lane needs. */
static uint32_t places_at_least(const struct mpib_shard *s, uint32_t places)
{
	const uint32_t least = s->engine->cfg.srq_high + PLACES_LEAST;

	return places > least ? places : least;
}

uint32_t mpib_tenant_most(const struct mpib_shard *s, unsigned rail)
{
	return places_at_least(s, mpib_budget_most(&s->rail[rail].budget) / 4);
}

int mpib_tenant_may_have(const struct mpib_tenant *t, unsigned rail,
			 uint32_t qps, bool by_peer)
{
	const struct mpib_shard *s = t->shard;
	const uint32_t all = mpib_tenant_most(s, rail);
	const uint32_t most = by_peer ? places_at_least(s, all / 4 * 3) : all;
	const uint32_t has =
		t->promised[rail] + t->qps[rail] * MPIB_BUDGET_PER_QP;

	if (s->engine->cfg.cq_whole || has + qps * MPIB_BUDGET_PER_QP <= most)
		return 0;
	return mpib_last_error_set(
		s->engine, -EDQUOT,
		"uid %u has reserved %u of at most %u CQ entries on rail %s "
		"of shard %u (close connections, or set quota.lanes)",
		(unsigned)t->uid, has, most, mpib_rail_label(s, rail),
		s->index);
}

void mpib_tenant_share(struct mpib_tenant *tenant, uint32_t weight,
		       uint64_t rate)
{
	mpib_drr_set(&tenant->drr, weight, rate);
}

void mpib_tenant_hold(struct mpib_tenant *t)
{
	t->refs++;
}

/* Shard thread. Remove the tenant. The tenant's QPs have been destroyed, so
 * none of its receives will complete. */
static void on_leave(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_tenant *t = call->what;
	struct mpib_shard *s = t->shard;

	TAILQ_REMOVE(&s->tenants, t, link);
	mpib_pace_forget(&s->pace, t);
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		mpib_budget_received(&s->rail[r].budget, t->srq_posted[r]);
		t->srq_posted[r] = 0;
	}
	mpib_call_done(s, call, 0);
}

static void tenant_left(void *arg, int status)
{
	(void)status;
	free_tenant(arg);
}

/* If this was the last reference, remove the tenant from the list immediately.
 * Until on_leave() is done, mpib_tenant_get() for the same uid must create a
 * new tenant. */
void mpib_tenant_put(struct mpib_tenant *tenant)
{
	struct mpib_engine *e = tenant->shard->engine;
	struct mpib_tenant **at = &e->tenants;
	struct mpib_call *call;

	if (--tenant->refs > 0 || e->closing)
		return;
	while (*at != tenant)
		at = &(*at)->next;
	*at = tenant->next;
	call = mpib_call_new(tenant, tenant_left, tenant);
	mpib_mailbox_send(&tenant->shard->mailbox, &call->msg, on_leave);
}

void mpib_tenants_free(struct mpib_engine *e)
{
	while (e->tenants) {
		struct mpib_tenant *t = e->tenants;

		e->tenants = t->next;
		free_tenant(t);
	}
}
