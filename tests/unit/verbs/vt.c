/* SPDX-License-Identifier: Apache-2.0 */
#include "vt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "verbs/soft/soft.h"

int64_t vt_ms(void)
{
	return (int64_t)(mpib_now_ns() / 1000000);
}

uint64_t vt_rand(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

void vt_fill(uint8_t *p, size_t len, uint64_t seed)
{
	seed = seed * 2654435761u + 1;
	for (size_t i = 0; i < len; i++) {
		if (!(i & 7))
			vt_rand(&seed);
		p[i] = (uint8_t)(seed >> (i & 7) * 8);
	}
}

static struct ibv_cq *make_cq(struct vt *t, struct ibv_context *ctx)
{
	struct ibv_cq *cq;

	assert_int_equal(t->v->create_cq(ctx, VT_CQE, NULL, NULL, &cq), 0);
	return cq;
}

static void end_init(struct vt *t, struct vt_end *e,
		     const struct mpib_rail_spec *spec)
{
	int flags;

	assert_int_equal(t->v->query_port(e->ctx, spec->port, &e->info), 0);
	assert_int_equal(t->v->alloc_pd(e->ctx, &e->pd), 0);
	e->send.cq = make_cq(t, e->ctx);
	e->recv.cq = make_cq(t, e->ctx);
	e->send.wc = calloc(VT_CQE, sizeof(struct ibv_wc));
	e->recv.wc = calloc(VT_CQE, sizeof(struct ibv_wc));
	flags = fcntl(e->ctx->async_fd, F_GETFL);
	assert_int_equal(fcntl(e->ctx->async_fd, F_SETFL, flags | O_NONBLOCK),
			 0);
}

static const char *env_or(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value ? value : otherwise;
}

/* Delay every message by up to MPIB_TEST_DELAY turns. */
static void disturb(struct vt *t)
{
	struct mpib_soft_fault fault = {
		.seed = 1,
		.delay_turns = (uint32_t)atoi(env_or("MPIB_TEST_DELAY", "0")),
	};

	if (!t->can_fault || !fault.delay_turns)
		return;
	assert_int_equal(mpib_soft_set_fault(t->a.ctx, &fault), 0);
	fault.seed = 2;
	assert_int_equal(mpib_soft_set_fault(t->b.ctx, &fault), 0);
}

int vt_setup(void **state)
{
	struct vt *t = calloc(1, sizeof(*t));
	char why[128];

	if (mpib_rail_spec_parse(env_or("MPIB_TEST_RAIL_A", "soft:127.21.0.1"),
				 &t->spec_a, why, sizeof(why)) < 0 ||
	    mpib_rail_spec_parse(env_or("MPIB_TEST_RAIL_B", "soft:127.21.0.2"),
				 &t->spec_b, why, sizeof(why)) < 0)
		return -1;
	t->v = mpib_verbs_of(&t->spec_a);
	t->can_fault = t->spec_a.provider == MPIB_PROVIDER_SOFT;
	t->soft = t->can_fault || !strncmp(t->spec_a.name, "soft", 4);
	t->has_threads = !vt_sim_link;
	t->rxe = !t->can_fault && !strncmp(t->spec_a.name, "rxe", 3);
	t->same = getenv("MPIB_TEST_SAME") != NULL;
	if (t->same)
		t->spec_b = t->spec_a;
	assert_int_equal(t->v->open(&t->spec_a, &t->a.ctx), 0);
	t->b.ctx = t->a.ctx;
	if (!t->same)
		assert_int_equal(t->v->open(&t->spec_b, &t->b.ctx), 0);
	end_init(t, &t->a, &t->spec_a);
	end_init(t, &t->b, &t->spec_b);
	disturb(t);
	*state = t;
	return 0;
}

int vt_threaded_setup(void **state)
{
	int rc = vt_setup(state);
	struct vt *t = *state;

	if (rc)
		return rc;
	t->plain_b = t->b;
	assert_int_equal(mpib_soft_open_threaded(&t->spec_b, &t->b.ctx), 0);
	assert_int_equal(t->v->query_port(t->b.ctx, 1, &t->b.info), 0);
	assert_int_equal(t->v->alloc_pd(t->b.ctx, &t->b.pd), 0);
	t->b.send.cq = make_cq(t, t->b.ctx);
	t->b.recv.cq = make_cq(t, t->b.ctx);
	return 0;
}

static void unthread_b(struct vt *t)
{
	assert_int_equal(t->v->destroy_cq(t->b.send.cq), 0);
	assert_int_equal(t->v->destroy_cq(t->b.recv.cq), 0);
	assert_int_equal(t->v->dealloc_pd(t->b.pd), 0);
	assert_int_equal(t->v->close(t->b.ctx), 0);
	t->b = t->plain_b;
}

static int end_fini(struct vt *t, struct vt_end *e)
{
	int rc = t->v->destroy_cq(e->send.cq);

	if (!rc)
		rc = t->v->destroy_cq(e->recv.cq);
	if (!rc)
		rc = t->v->dealloc_pd(e->pd);
	free(e->send.wc);
	free(e->recv.wc);
	return rc;
}

static int free_all(struct vt *t)
{
	int rc = 0;

	while (t->qps > 0)
		rc = rc ?: t->v->destroy_qp(t->qp[--t->qps]);
	if (t->srq)
		rc = rc ?: t->v->destroy_srq(t->srq);
	while (t->mems > 0) {
		struct vt_mem *m = &t->mem[--t->mems];

		rc = rc ?: t->v->dereg_mr(m->mr);
		munmap(m->p, m->len);
	}
	free(t->qp);
	free(t->mem);
	return rc;
}

/* Release everything that a failed test has left, because the next test opens
 * the same devices. */
int vt_teardown(void **state)
{
	struct vt *t = *state;
	int left = free_all(t), rc, other;

	if (t->plain_b.ctx)
		unthread_b(t);
	rc = end_fini(t, &t->a);
	other = end_fini(t, &t->b);
	if (left)
		rc = left;
	if (!rc)
		rc = other;
	if (!rc && !t->same)
		rc = t->v->close(t->b.ctx);
	if (!rc)
		rc = t->v->close(t->a.ctx);
	if (rc)
		print_error("teardown: %s\n", strerror(-rc));
	free(t);
	return rc;
}

static void soft_link(struct vt_end *e, bool up)
{
	struct mpib_soft_fault fault = { .link_down = !up };

	assert_int_equal(mpib_soft_set_fault(e->ctx, &fault), 0);
}

void vt_link(struct vt *t, struct vt_end *e, bool up)
{
	const char *tool = getenv("MPIB_TEST_LINK");
	char command[512];

	if (t->can_fault) {
		soft_link(e, up);
		return;
	}
	if (vt_sim_link && vt_sim_link(e->ctx, up))
		return;
	if (!tool)
		skip();
	snprintf(command, sizeof(command), "%s %s %s", tool,
		 e == &t->a ? t->spec_a.name : t->spec_b.name,
		 up ? "up" : "down");
	assert_int_equal(system(command), 0);
}

struct vt_mem vt_mem(struct vt *t, struct vt_end *e, size_t len, int access)
{
	struct vt_mem m = { .len = len };

	if (getenv("MPIB_TEST_ANY_ORDER") && t->v->any_order)
		access |= MPIB_ACCESS_ANY_ORDER;
	m.p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(m.p, MAP_FAILED);
	assert_int_equal(
		t->v->reg_mr(e->pd, m.p, len, vt_addr(&m), access, &m.mr), 0);
	t->mem = realloc(t->mem, (t->mems + 1) * sizeof(m));
	t->mem[t->mems++] = m;
	return m;
}

void vt_mem_free(struct vt *t, struct vt_mem *m)
{
	if (m->mr)
		assert_int_equal(t->v->dereg_mr(m->mr), 0);
	for (unsigned i = 0; i < t->mems; i++) {
		if (t->mem[i].p == m->p)
			t->mem[i] = t->mem[--t->mems];
	}
	munmap(m->p, m->len);
}

uint64_t vt_addr(const struct vt_mem *m)
{
	return (uint64_t)(uintptr_t)m->p;
}
