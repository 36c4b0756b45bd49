/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/rail/loopback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "engine/rail/rail.h"
#include "engine/rail/tenant.h"
#include "verbs/verbs.h"

/* Pause between two attempts to replace a broken QP. */
#define AGAIN_NS 100000000u
/* Packets of a loop-back QP never leave the device, so its timeout is shorter
 * than that of a lane's QP. If the port is down, a flush waits until its READ
 * fails. The READ fails after two tries of 17 ms each, or of 67 ms on devices
 * that quadruple the timeout. */
#define TIMEOUT_MOST 12
#define RETRIES_MOST 1

static int loopback_create(struct mpib_tenant *t, unsigned r)
{
	struct mpib_rail *rail = &t->shard->rail[r];
	struct ibv_qp_init_attr init = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.cap = { .max_send_wr = MPIB_LOOPBACK_DEPTH,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	int rc = rail->verbs->create_qp(t->pd[r], &init, &t->loop[r].qp);

	if (rc < 0)
		return mpib_last_error(t->shard, r, "ibv_create_qp", rc);
	rc = mpib_qp_init(rail->verbs, t->loop[r].qp, rail->port_num,
			  (uint16_t)t->shard->engine->cfg.pkey_index,
			  IBV_ACCESS_REMOTE_READ);
	return mpib_last_error(t->shard, r, "ibv_modify_qp", rc);
}

static uint8_t at_most(uint8_t most, uint8_t n)
{
	return n < most ? n : most;
}

/* Move the QP to RTR and RTS, connected to itself. */
static int loopback_connect(struct mpib_tenant *t, unsigned r)
{
	const struct mpib_engine_config *cfg = &t->shard->engine->cfg;
	struct mpib_rail *rail = &t->shard->rail[r];
	struct ibv_qp *qp = t->loop[r].qp;
	struct mpib_port_info port;
	struct ibv_qp_attr attr = {
		.dest_qp_num = qp->qp_num,
		.timeout = at_most(TIMEOUT_MOST, cfg->timeout),
		.retry_cnt = at_most(RETRIES_MOST, cfg->retry_cnt),
	};
	uint32_t psn;
	int rc;

	/* Use a random PSN, so that a late packet for an older QP cannot
	 * match. */
	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		return -EIO;
	rc = rail->verbs->query_port(rail->ctx, rail->port_num, &port);
	if (rc < 0)
		return rc;
	attr.path_mtu = port.mtu;
	attr.rq_psn = attr.sq_psn = psn & 0xffffff;
	attr.ah_attr = mpib_path_to_self(
		&port, rail->port_num,
		cfg->service_level < 0 ? 0 : (uint8_t)cfg->service_level);
	return mpib_qp_connect(rail->verbs, qp, &attr);
}

static void loopback_destroy(struct mpib_tenant *t, unsigned r)
{
	if (t->loop[r].qp)
		t->shard->rail[r].verbs->destroy_qp(t->loop[r].qp);
	t->loop[r].qp = NULL;
}

static int loopback_renew(struct mpib_tenant *t, unsigned r)
{
	int rc;

	loopback_destroy(t, r);
	rc = loopback_create(t, r);
	if (rc == 0)
		rc = mpib_last_error(t->shard, r, "ibv_modify_qp",
				     loopback_connect(t, r));
	if (rc < 0)
		loopback_destroy(t, r);
	return rc;
}

/* Register the memory to which all READs write. Nothing uses its contents. */
static int loopback_register(struct mpib_tenant *t, unsigned r)
{
	int rc;

	if (!t->answers) {
		void *page = mmap(NULL, MPIB_CACHELINE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return -ENOMEM;
		t->answers = page;
	}
	rc = t->shard->rail[r].verbs->reg_mr(
		t->pd[r], t->answers, MPIB_CACHELINE,
		(uint64_t)(uintptr_t)t->answers, IBV_ACCESS_LOCAL_WRITE,
		&t->loop[r].mr);
	return mpib_last_error(t->shard, r, "ibv_reg_mr", rc);
}

static void on_made(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_tenant *t = call->what;
	struct mpib_loopback *l = &t->loop[call->rail];

	l->asked = false;
	l->usable = call->status == 0 && !t->shard->rail[call->rail].lost;
	mpib_call_done(t->shard, call, 0);
}

static void after_made(struct mpib_call *call)
{
	mpib_tenant_put(call->what);
}

/* Tell the shard that the control thread has made a new QP; status < 0: it
 * failed. */
static void loopback_give(struct mpib_call *call)
{
	struct mpib_tenant *t = call->what;

	mpib_tenant_hold(t);
	call->after = after_made;
	mpib_mailbox_send(&t->shard->mailbox, &call->msg, on_made);
}

static int loopback_first(struct mpib_tenant *t, unsigned r)
{
	struct mpib_call *call;
	int rc = loopback_register(t, r);

	if (rc == 0)
		rc = loopback_renew(t, r);
	if (rc < 0 && mpib_rail_is_gone(t->shard, r, rc))
		return mpib_shard_some_rail(t->shard);
	if (rc < 0)
		return rc;
	call = mpib_call_new(t, NULL, NULL);
	call->rail = r;
	loopback_give(call);
	return 0;
}

int mpib_loopback_make(struct mpib_tenant *t)
{
	uint8_t away = mpib_shard_absent(t->shard);
	int rc = 0;

	for (unsigned r = 0; rc == 0 && r < t->shard->engine->cfg.rails; r++) {
		if (!(away >> r & 1) && !t->loop[r].mr)
			rc = loopback_first(t, r);
	}
	return rc;
}

void mpib_loopback_free(struct mpib_tenant *t)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		loopback_destroy(t, r);
		if (t->loop[r].mr)
			t->shard->rail[r].verbs->dereg_mr(t->loop[r].mr);
	}
	if (t->answers)
		munmap(t->answers, MPIB_CACHELINE);
}

/* Control thread: replace a QP that the shard found broken. */
static void on_broke(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_tenant *t = call->what;

	/* Make no new QP for a tenant that is being removed. */
	if (t->refs == 0 || t->shard->rail[call->rail].dead) {
		free(call);
		return;
	}
	call->status = loopback_renew(t, call->rail);
	loopback_give(call);
}

/* Shard thread from here on. */
static void loopback_mend(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_loopback *l = &t->loop[rail];
	struct mpib_shard *s = t->shard;
	struct mpib_call *call;

	if (l->usable || l->asked || l->inflight ||
	    s->now - l->asked_ns < AGAIN_NS)
		return;
	l->asked = true;
	l->asked_ns = s->now;
	call = mpib_call_new(t, NULL, NULL);
	call->rail = rail;
	mpib_mailbox_send(&s->engine->mailbox, &call->msg, on_broke);
}

bool mpib_loopback_read(struct mpib_tenant *t, unsigned rail, uint64_t wr_id,
			uint64_t addr, uint32_t rkey)
{
	struct mpib_loopback *l = &t->loop[rail];
	struct mpib_budget *budget = &t->shard->rail[rail].budget;
	struct ibv_sge sge = { .addr = (uint64_t)(uintptr_t)t->answers,
			       .length = 1,
			       .lkey = l->mr ? l->mr->lkey : 0 };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	if (!l->usable) {
		loopback_mend(t, rail);
		return false;
	}
	if (l->inflight == MPIB_LOOPBACK_DEPTH || !mpib_budget_fits(budget, 1))
		return false;
	if (ibv_post_send(l->qp, &wr, &bad)) {
		l->usable = false;
		return false;
	}
	l->inflight++;
	mpib_budget_send(budget, 1);
	return true;
}

void mpib_loopback_over(struct mpib_tenant *t, unsigned rail, bool ok)
{
	struct mpib_loopback *l = &t->loop[rail];

	l->inflight--;
	l->usable &= ok;
	mpib_budget_sent(&t->shard->rail[rail].budget, 1);
}

void mpib_loopback_lost(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_loopback *l = &t->loop[rail];

	mpib_budget_sent(&t->shard->rail[rail].budget, l->inflight);
	l->inflight = 0;
	l->usable = false;
}
