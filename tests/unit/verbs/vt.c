/* SPDX-License-Identifier: Apache-2.0 */
#include "vt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "verbs/soft/soft.h"

#define WAIT_MS 10000

const struct vt_opt vt_usual = {
	.send_wr = 64,
	.recv_wr = 64,
	.sge = 4,
	.inline_data = 64,
	.access = VT_ALL,
	.timeout = 18, /* a second: rxe errs in repeating writes */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.rd_atomic = 4,
};

int64_t vt_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
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

/* MPIB_TEST_DELAY holds every message for up to so many turns. */
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

/* What a failed test left behind is not in the way of the next one, which
 * opens the devices again. */
int vt_teardown(void **state)
{
	struct vt *t = *state;
	int rc = end_fini(t, &t->a), other = end_fini(t, &t->b);

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

	m.p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(m.p, MAP_FAILED);
	assert_int_equal(
		t->v->reg_mr(e->pd, m.p, len, vt_addr(&m), access, &m.mr), 0);
	return m;
}

void vt_mem_free(struct vt *t, struct vt_mem *m)
{
	assert_int_equal(t->v->dereg_mr(m->mr), 0);
	munmap(m->p, m->len);
}

uint64_t vt_addr(const struct vt_mem *m)
{
	return (uint64_t)(uintptr_t)m->p;
}

struct ibv_qp *vt_qp(struct vt *t, struct vt_end *e, const struct vt_opt *o)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->send.cq,
		.recv_cq = e->recv.cq,
		.srq = o->srq && o->srq->context == e->ctx ? o->srq : NULL,
		.cap = { .max_send_wr = o->send_wr,
			 .max_recv_wr = o->recv_wr,
			 .max_send_sge = o->sge,
			 .max_recv_sge = o->sge,
			 .max_inline_data = o->inline_data },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = o->sig_all,
	};
	struct ibv_qp *qp;

	assert_int_equal(t->v->create_qp(e->pd, &attr, &qp), 0);
	return qp;
}

static struct vt_end *end_of(struct vt *t, struct ibv_qp *qp)
{
	return qp->pd == t->a.pd ? &t->a : &t->b;
}

int vt_to_init(struct vt *t, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = end_of(t, qp) == &t->a ? t->spec_a.port
						   : t->spec_b.port,
		.qp_access_flags = access,
	};

	return t->v->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
}

int vt_to_rtr(struct vt *t, struct ibv_qp *qp, const struct vt_end *peer,
	      uint32_t dest, uint32_t rq_psn, const struct vt_opt *o)
{
	struct vt_end *own = end_of(t, qp);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->info.mtu < peer->info.mtu ? own->info.mtu
							   : peer->info.mtu,
		.dest_qp_num = dest,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = o->rd_atomic,
		.min_rnr_timer = o->min_rnr_timer,
		.ah_attr = { .port_num = own == &t->a ? t->spec_a.port
						      : t->spec_b.port,
			     .dlid = peer->info.lid },
	};

	if (own->info.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->info.gid;
		attr.ah_attr.grh.sgid_index = own->info.gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	return t->v->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
}

int vt_to_rts(struct vt *t, struct ibv_qp *qp, uint32_t sq_psn,
	      const struct vt_opt *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = o->timeout,
		.retry_cnt = o->retry_cnt,
		.rnr_retry = o->rnr_retry,
		.max_rd_atomic = o->rd_atomic,
	};

	return t->v->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int vt_to(struct vt *t, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return t->v->modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state vt_state(struct vt *t, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(t->v->query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void vt_connect(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb,
		const struct vt_opt *o)
{
	struct vt_end *ea = end_of(t, qa), *eb = end_of(t, qb);
	uint32_t psn_a = qa->qp_num * 7 & 0xffffff;
	uint32_t psn_b = qb->qp_num * 5 & 0xffffff;

	assert_int_equal(vt_to_init(t, qa, o->access), 0);
	assert_int_equal(vt_to_init(t, qb, o->access), 0);
	assert_int_equal(vt_to_rtr(t, qa, eb, qb->qp_num, psn_b, o), 0);
	assert_int_equal(vt_to_rtr(t, qb, ea, qa->qp_num, psn_a, o), 0);
	assert_int_equal(vt_to_rts(t, qa, psn_a, o), 0);
	assert_int_equal(vt_to_rts(t, qb, psn_b, o), 0);
}

void vt_pair(struct vt *t, const struct vt_opt *o, struct ibv_qp **qa,
	     struct ibv_qp **qb)
{
	*qa = vt_qp(t, &t->a, o);
	*qb = vt_qp(t, &t->b, o);
	vt_connect(t, *qa, *qb, o);
}

void vt_destroy(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb)
{
	if (qa)
		assert_int_equal(t->v->destroy_qp(qa), 0);
	if (qb)
		assert_int_equal(t->v->destroy_qp(qb), 0);
}

struct ibv_srq *vt_srq(struct vt *t, struct vt_end *e, uint32_t wr)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = 2 },
	};
	struct ibv_srq *srq;

	assert_int_equal(t->v->create_srq(e->pd, &attr, &srq), 0);
	return srq;
}

struct ibv_sge vt_sge(const struct vt_mem *m, size_t off, size_t len)
{
	return (struct ibv_sge){
		.addr = vt_addr(m) + off,
		.length = (uint32_t)len,
		.lkey = m->mr->lkey,
	};
}

int vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge, uint64_t raddr,
	    uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = nsge,
		.opcode = op,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, &wr, &bad);
}

int vt_send(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge)
{
	return vt_rdma(qp, op, id, flags, sge, nsge, 0, 0);
}

int vt_send_imm(struct ibv_qp *qp, uint64_t id, uint32_t imm,
		struct ibv_sge *sge, int nsge)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = nsge,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(imm),
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, &wr, &bad);
}

int vt_write_imm(struct ibv_qp *qp, uint64_t id, unsigned flags, uint32_t imm,
		 struct ibv_sge *sge, int nsge, uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = nsge,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags,
		.imm_data = htonl(imm),
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, &wr, &bad);
}

int vt_recv(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int nsge)
{
	struct ibv_recv_wr wr = { .wr_id = id,
				  .sg_list = sge,
				  .num_sge = nsge };
	struct ibv_recv_wr *bad = NULL;

	return ibv_post_recv(qp, &wr, &bad);
}

int vt_srq_recv(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge, int nsge)
{
	struct ibv_recv_wr wr = { .wr_id = id,
				  .sg_list = sge,
				  .num_sge = nsge };
	struct ibv_recv_wr *bad = NULL;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void collect(struct vt_cq *q)
{
	struct ibv_wc wc[16];
	int room = VT_CQE - (int)(q->tail - q->head);
	int n = ibv_poll_cq(q->cq, room < 16 ? room : 16, wc);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		q->wc[q->tail++ % VT_CQE] = wc[i];
}

void vt_turn(struct vt *t)
{
	collect(&t->a.send);
	collect(&t->a.recv);
	collect(&t->b.send);
	collect(&t->b.recv);
}

bool vt_try(struct vt *t, struct vt_cq *q, struct ibv_wc *wc)
{
	if (q->head == q->tail)
		vt_turn(t);
	if (q->head == q->tail)
		return false;
	*wc = q->wc[q->head++ % VT_CQE];
	return true;
}

struct ibv_wc vt_wait(struct vt *t, struct vt_cq *q)
{
	int64_t end = vt_ms() + WAIT_MS;
	struct ibv_wc wc = { 0 };

	while (!vt_try(t, q, &wc))
		if (vt_ms() > end)
			fail_msg("no completion in %d ms", WAIT_MS);
	return wc;
}

struct ibv_wc vt_expect(struct vt *t, struct vt_cq *q, uint64_t id,
			enum ibv_wc_status status)
{
	struct ibv_wc wc = vt_wait(t, q);

	if (wc.status != status || wc.wr_id != id)
		print_error("got %s for %llu\n", ibv_wc_status_str(wc.status),
			    (unsigned long long)wc.wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, id);
	return wc;
}

void vt_quiet(struct vt *t, struct vt_cq *q, int n)
{
	for (int i = 0; i < n; i++)
		vt_turn(t);
	assert_int_equal(q->head, q->tail);
}

enum ibv_event_type vt_event(struct vt *t, struct vt_end *e)
{
	int64_t end = vt_ms() + WAIT_MS;
	struct ibv_async_event ev;
	int rc;

	while ((rc = t->v->get_async_event(e->ctx, &ev)) == -EAGAIN) {
		vt_turn(t);
		if (vt_ms() > end)
			fail_msg("no event in %d ms", WAIT_MS);
	}
	assert_int_equal(rc, 0);
	t->v->ack_async_event(&ev);
	return ev.event_type;
}

void vt_refused(struct vt *t, struct ibv_qp *qp, enum ibv_event_type event)
{
	struct vt_end *e = end_of(t, qp);

	if (t->rxe)
		assert_true(vt_no_event(t, e));
	else
		assert_int_equal(vt_event(t, e), event);
	assert_int_equal(vt_state(t, qp), IBV_QPS_ERR);
}

bool vt_no_event(struct vt *t, struct vt_end *e)
{
	struct ibv_async_event ev;

	for (int i = 0; i < 50; i++)
		vt_turn(t);
	return t->v->get_async_event(e->ctx, &ev) == -EAGAIN;
}
