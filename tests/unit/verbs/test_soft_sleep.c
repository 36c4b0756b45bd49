/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two owners that sleep whenever they have nothing to do. Sockets, timers for
 * RNR and for the rate, delayed messages, posts after the last poll: each has
 * to wake the right one, or a wait of five seconds ends and the test fails.
 */
#include "vt.h"

#include "verbs/soft/soft.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
	MESSAGES = 400,
	MAX_LEN = 200000
};

/* One owner: its thread, its queue with a channel, its QP. */
struct owner {
	struct vt *t;
	struct vt_end *e;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct vt_mem mem;
	const struct vt_mem *peer_mem;
	bool late; /* post receives only when woken */
	uint64_t rng;
	unsigned sent, acked, received, posted;
	int failed;
	_Atomic int *finished; /* owners that have all they wait for */
};

static void owner_open(struct owner *o)
{
	struct vt *t = o->t;

	assert_int_equal(t->v->create_comp_channel(o->e->ctx, &o->ch), 0);
	assert_int_equal(fcntl(o->ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(t->v->create_cq(o->e->ctx, 256, NULL, o->ch, &o->cq),
			 0);
	o->mem = vt_mem(t, o->e, 2 * MAX_LEN, VT_ALL);
}

static void owner_close(struct owner *o)
{
	struct vt *t = o->t;

	vt_destroy(t, o->qp, NULL);
	assert_int_equal(t->v->destroy_cq(o->cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(o->ch), 0);
	vt_mem_free(t, &o->mem);
}

static void post_some(struct owner *o)
{
	unsigned ahead = o->late ? 1 : 8;

	while (o->posted < MESSAGES && o->posted - o->received < ahead) {
		o->failed |= vt_recv(o->qp, 1, NULL, 0) != 0;
		o->posted++;
	}
	while (o->sent < MESSAGES && o->sent - o->acked < 4) {
		size_t len = vt_rand(&o->rng) % MAX_LEN;
		struct ibv_sge sge = vt_sge(&o->mem, 0, len);

		o->failed |= vt_write_imm(o->qp, 2, IBV_SEND_SIGNALED, 0, &sge,
					  1, vt_addr(o->peer_mem) + MAX_LEN,
					  o->peer_mem->mr->rkey) != 0;
		o->sent++;
	}
}

static bool drain(struct owner *o)
{
	struct ibv_wc wc;
	bool any = false;

	while (ibv_poll_cq(o->cq, 1, &wc) == 1) {
		o->failed |= wc.status != IBV_WC_SUCCESS;
		if (wc.wr_id == 1)
			o->received++;
		else
			o->acked++;
		any = true;
	}
	return any;
}

static void *own(void *arg)
{
	struct owner *o = arg;
	struct pollfd pfd = { .fd = o->ch->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *ctx;

	post_some(o);
	while (!o->failed && (o->received < MESSAGES || o->acked < MESSAGES)) {
		o->failed |= ibv_req_notify_cq(o->cq, 0) != 0;
		if (drain(o)) {
			/* Also what is posted while armed must move. */
			post_some(o);
			continue;
		}
		o->failed |= poll(&pfd, 1, 5000) <= 0;
		while (!o->t->v->get_cq_event(o->ch, &cq, &ctx))
			o->t->v->ack_cq_events(cq, 1);
	}
	/* The peer may still want our last ack. */
	atomic_fetch_add(o->finished, 1);
	while (atomic_load(o->finished) < 2)
		drain(o);
	return NULL;
}

static void run(struct vt *t, bool late, const struct mpib_soft_fault *fault)
{
	_Atomic int finished = 0;
	struct owner a = { .t = t,
			   .e = &t->a,
			   .rng = 3,
			   .late = late,
			   .finished = &finished };
	struct owner b = { .t = t,
			   .e = &t->b,
			   .rng = 4,
			   .late = late,
			   .finished = &finished };
	struct ibv_cq *cqs[4] = { t->a.send.cq, t->a.recv.cq, t->b.send.cq,
				  t->b.recv.cq };
	const struct mpib_soft_fault none = { 0 };
	pthread_t thread;

	owner_open(&a);
	owner_open(&b);
	a.peer_mem = &b.mem;
	b.peer_mem = &a.mem;
	t->a.send.cq = t->a.recv.cq = a.cq;
	t->b.send.cq = t->b.recv.cq = b.cq;
	vt_pair(t, &vt_usual, &a.qp, &b.qp);
	mpib_soft_set_fault(t->a.ctx, fault);
	mpib_soft_set_fault(t->b.ctx, fault);
	assert_int_equal(pthread_create(&thread, NULL, own, &b), 0);
	own(&a);
	assert_int_equal(pthread_join(thread, NULL), 0);
	mpib_soft_set_fault(t->a.ctx, &none);
	mpib_soft_set_fault(t->b.ctx, &none);
	assert_int_equal(a.failed, 0);
	assert_int_equal(b.failed, 0);
	owner_close(&a);
	owner_close(&b);
	t->a.send.cq = cqs[0];
	t->a.recv.cq = cqs[1];
	t->b.send.cq = cqs[2];
	t->b.recv.cq = cqs[3];
}

static void sleeping_owners_hear_of_sockets(void **state)
{
	const struct mpib_soft_fault none = { 0 };

	run(*state, false, &none);
}

static void sleeping_owners_hear_of_rnr_timers(void **state)
{
	const struct mpib_soft_fault none = { 0 };

	run(*state, true, &none);
}

static void sleeping_owners_hear_of_delayed_messages(void **state)
{
	const struct mpib_soft_fault delay = { .seed = 9, .delay_turns = 5 };

	run(*state, false, &delay);
}

static void sleeping_owners_hear_of_the_rate(void **state)
{
	const struct mpib_soft_fault rate = { .rate_bytes_per_s = 200 << 20 };

	run(*state, true, &rate);
}

static void a_blocking_get_turns_the_context_itself(void **state)
{
	struct vt *t = *state;
	struct vt_cq plain = t->a.send;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq, *which;
	struct ibv_qp *qa, *qb;
	struct vt_opt o = vt_usual;
	void *ctx;

	/* Nobody answers: the event is the error after some retries. */
	o.timeout = 10;
	o.retry_cnt = 1;
	assert_int_equal(t->v->create_comp_channel(t->a.ctx, &ch), 0);
	assert_int_equal(t->v->create_cq(t->a.ctx, 16, NULL, ch, &cq), 0);
	t->a.send.cq = cq;
	vt_pair(t, &o, &qa, &qb);
	vt_destroy(t, NULL, qb);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(vt_send_imm(qa, 2, 0, NULL, 0), 0);
	assert_int_equal(t->v->get_cq_event(ch, &which, &ctx), 0);
	assert_ptr_equal(which, cq);
	t->v->ack_cq_events(cq, 1);
	vt_expect(t, &t->a.send, 2, IBV_WC_RETRY_EXC_ERR);
	vt_destroy(t, qa, NULL);
	assert_int_equal(t->v->destroy_cq(cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
	t->a.send.cq = plain.cq;
}

const struct CMUnitTest test_list[] = {
	vt_test(sleeping_owners_hear_of_sockets),
	vt_test(sleeping_owners_hear_of_rnr_timers),
	vt_test(sleeping_owners_hear_of_delayed_messages),
	vt_test(sleeping_owners_hear_of_the_rate),
	vt_test(a_blocking_get_turns_the_context_itself),
	{ 0 },
};
