/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer over each rail's device to itself, on QPs of our own: the proxy
 * need not run, and its traffic goes on. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "doctor/doctor.h"
#include "verbs/verbs.h"

#define LOOP_BYTES (256u << 10)
#define LOOP_WRITES 64u /* of them the last is signalled */
#define LOOP_LIMIT_NS UINT64_C(10000000000)

struct loop {
	struct mpib_rail_spec spec;
	const struct mpib_verbs *v;
	const char *call; /* what failed */
	struct mpib_port_info port;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[2];
	uint8_t *mem; /* what is sent, then where it arrives */
};

static void loop_close(struct loop *l)
{
	for (unsigned i = 0; i < 2; i++) {
		if (l->qp[i])
			l->v->destroy_qp(l->qp[i]);
	}
	if (l->mr)
		l->v->dereg_mr(l->mr);
	if (l->cq)
		l->v->destroy_cq(l->cq);
	if (l->pd)
		l->v->dealloc_pd(l->pd);
	if (l->ctx)
		l->v->close(l->ctx);
	free(l->mem);
}

/* Each call's name goes before it, for the message if it fails. */
static int loop_open(struct loop *l)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = LOOP_WRITES,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	int rc;

	l->call = "ibv_open_device";
	rc = l->v->open(&l->spec, &l->ctx);
	if (rc < 0)
		return rc;
	l->call = "ibv_query_port";
	rc = l->v->query_port(l->ctx, l->spec.port, &l->port);
	if (rc < 0)
		return rc;
	l->call = "ibv_alloc_pd";
	rc = l->v->alloc_pd(l->ctx, &l->pd);
	if (rc < 0)
		return rc;
	l->call = "ibv_create_cq";
	rc = l->v->create_cq(l->ctx, LOOP_WRITES, NULL, NULL, &l->cq);
	if (rc < 0)
		return rc;
	l->call = "ibv_reg_mr";
	l->mem = calloc(2, LOOP_BYTES);
	if (!l->mem)
		return -ENOMEM;
	rc = l->v->reg_mr(l->pd, l->mem, (size_t)2 * LOOP_BYTES,
			  (uint64_t)(uintptr_t)l->mem,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			  &l->mr);
	attr.send_cq = attr.recv_cq = l->cq;
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		l->call = "ibv_create_qp";
		rc = l->v->create_qp(l->pd, &attr, &l->qp[i]);
	}
	return rc;
}

static int loop_connect(struct loop *l)
{
	int rc = 0;

	l->call = "ibv_modify_qp";
	for (unsigned i = 0; rc == 0 && i < 2; i++)
		rc = mpib_qp_init(l->v, l->qp[i], l->spec.port, 0,
				  IBV_ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		struct ibv_qp_attr attr = {
			.path_mtu = l->port.mtu,
			.dest_qp_num = l->qp[!i]->qp_num,
			.min_rnr_timer = 12,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
			.ah_attr = mpib_path_to_self(&l->port, l->spec.port, 0),
		};

		rc = mpib_qp_connect(l->v, l->qp[i], &attr);
	}
	return rc;
}

/* The completion of the last write: 0, or -errno with the call's name. */
static int loop_wait(struct loop *l, const char **status)
{
	uint64_t until = mpib_now_ns() + LOOP_LIMIT_NS;
	struct ibv_wc wc;
	int n;

	l->call = "ibv_poll_cq";
	while ((n = ibv_poll_cq(l->cq, 1, &wc)) == 0) {
		if (mpib_now_ns() > until)
			return -ETIMEDOUT;
		sched_yield();
	}
	if (n < 0)
		return -EIO;
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	*status = ibv_wc_status_str(wc.status);
	return -EIO;
}

/* Sets *ns to what the writes took. */
static int loop_move(struct loop *l, uint64_t *ns, const char **status)
{
	struct ibv_sge sge = { .addr = (uint64_t)(uintptr_t)l->mem,
			       .length = LOOP_BYTES,
			       .lkey = l->mr->lkey };
	uint64_t begin = mpib_now_ns();
	int rc;

	l->call = "ibv_post_send";
	for (unsigned i = 0; i < LOOP_WRITES; i++) {
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags =
				i + 1 == LOOP_WRITES ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = { .remote_addr = sge.addr + LOOP_BYTES,
				     .rkey = l->mr->rkey },
		};

		rc = ibv_post_send(l->qp[0], &wr, &bad);
		if (rc)
			return -rc;
	}
	rc = loop_wait(l, status);
	*ns = mpib_now_ns() - begin;
	return rc;
}

static void loop_judge(struct mpib_doctor *d, const struct loop *l,
		       const char *check, const char *spec, uint64_t ns)
{
	double gbps = (double)LOOP_BYTES * LOOP_WRITES * 8 / (double)(ns | 1);
	bool slow = l->spec.provider == MPIB_PROVIDER_RDMA &&
		    gbps * 4000 < (double)l->port.speed_mbps;

	if (memcmp(l->mem, l->mem + LOOP_BYTES, LOOP_BYTES))
		mpib_find(d, MPIB_FAIL, check,
			  "take the card out of service, and see dmesg(1)",
			  "%s does not give back the bytes that were sent",
			  spec);
	else if (slow)
		mpib_find(d, MPIB_WARN, check,
			  "look at its PCI link, and whether a job uses it",
			  "%s moved 16 MiB to itself at %.1f of %g Gb/s", spec,
			  gbps, (double)l->port.speed_mbps / 1000);
	else
		mpib_find(d, MPIB_OK, check, NULL,
			  "%s moved 16 MiB to itself, right, at %.1f Gb/s",
			  spec, gbps);
}

static void loop_rail(struct mpib_doctor *d, const json_t *rail)
{
	const char *spec = mpib_json_str(rail, "device"), *status = NULL;
	char check[64], why[256];
	struct loop l = { 0 };
	uint64_t ns = 0;
	int rc;

	snprintf(check, sizeof(check), "loop %.48s", mpib_doctor_label(rail));
	if (mpib_rail_spec_parse(spec, &l.spec, why, sizeof(why)) < 0) {
		mpib_find(d, MPIB_FAIL, check, "use mpibctl of its version",
			  "what rail the proxy has: %s", why);
		return;
	}
	l.v = mpib_verbs_of(&l.spec);
	rc = loop_open(&l);
	if (rc == 0)
		rc = loop_connect(&l);
	for (unsigned i = 0; rc == 0 && i < LOOP_BYTES; i++)
		l.mem[i] = (uint8_t)(i * 31 + (i >> 8));
	if (rc == 0)
		rc = loop_move(&l, &ns, &status);
	if (rc == 0) {
		loop_judge(d, &l, check, spec, ns);
	} else if (status) {
		mpib_find(d, MPIB_FAIL, check,
			  "see dmesg(1) and the counters of its port",
			  "%s cannot reach itself: %s", spec, status);
	} else {
		mpib_doctor_explain(d, check, &l.spec, l.call, rc);
	}
	loop_close(&l);
}

void mpib_check_loop(struct mpib_doctor *d)
{
	const json_t *rail;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		if (mpib_doctor_new_port(d, i))
			loop_rail(d, rail);
	}
}
