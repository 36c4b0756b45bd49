/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three modes of the virtual QP side by side, for bench/vqp: two nodes with
 * two devices each in one process, on the software HCA, without an engine.
 * Prints what a message costs, which depends only on the mode, and the
 * bandwidth, which depends on the machine.
 *
 *   bench-vqp NET QPS SIZE FRAGMENT MESSAGES
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "peers/args.h"
#include "peers/peer.h"
#include "verbs/verbs.h"
#include "vqp/vqp.h"

#define DEVICES 2
#define CAP 16
#define INFLIGHT 16
#define PSN 17

struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct mpib_port_info port;
};

struct node {
	struct device dev[DEVICES];
	struct ibv_qp *data[MPIB_VQP_QPS], *notify[DEVICES];
	struct mpib_wr_pool pool;
	struct mpib_vcq *vcq;
	struct mpib_vqp *vqp;
	char *mem;
};

struct shape {
	enum mpib_vqp_mode mode;
	unsigned qps;
	uint64_t size;
	uint32_t frag;
	unsigned messages;
};

static const struct mpib_verbs *const v = &mpib_verbs_soft;
static struct node node[2];
static size_t bytes;

static void must(int rc, const char *what)
{
	if (rc < 0)
		peer_die("%s: %s", what, strerror(-rc));
}

static void open_node(struct node *n, const char *net, unsigned i)
{
	n->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (n->mem == MAP_FAILED)
		peer_die("no memory for %zu bytes", bytes);
	memset(n->mem, (int)i, bytes);
	for (unsigned d = 0; d < DEVICES; d++) {
		struct device *dev = &n->dev[d];
		struct mpib_rail_spec spec;
		char text[64], why[200];

		snprintf(text, sizeof(text), "soft:%s.%u.%u", net, 80 + d,
			 i + 1);
		if (mpib_rail_spec_parse(text, &spec, why, sizeof(why)) < 0)
			peer_die("%s", why);
		must(v->open(&spec, &dev->ctx), text);
		must(v->query_port(dev->ctx, 1, &dev->port), "port");
		must(v->alloc_pd(dev->ctx, &dev->pd), "PD");
		must(v->create_cq(dev->ctx, 65536, NULL, NULL, &dev->cq), "CQ");
		must(v->reg_mr(dev->pd, n->mem, bytes,
			       (uint64_t)(uintptr_t)n->mem,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			       &dev->mr),
		     "region");
	}
}

static struct ibv_qp *make_qp(struct device *dev)
{
	struct ibv_qp_init_attr init = {
		.send_cq = dev->cq,
		.recv_cq = dev->cq,
		.cap = { .max_send_wr = CAP,
			 .max_recv_wr = CAP,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp *qp;

	must(v->create_qp(dev->pd, &init, &qp), "QP");
	must(v->modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  IBV_QP_ACCESS_FLAGS),
	     "QP to INIT");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *to,
		       const struct device *there)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = there->port.mtu,
		.dest_qp_num = to->qp_num,
		.rq_psn = PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .port_num = 1,
			     .is_global = 1,
			     .grh = { .dgid = there->port.gid,
				      .hop_limit = 255 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = PSN,
		.max_rd_atomic = 1,
	};

	must(v->modify_qp(qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER),
	     "QP to RTR");
	must(v->modify_qp(qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC),
	     "QP to RTS");
}

static void make_vqp(struct node *n, const struct shape *s)
{
	struct mpib_vqp_qp qp[MPIB_VQP_QPS], notify[DEVICES];
	struct ibv_cq *cqs[DEVICES];
	struct mpib_vqp_attr attr = { .mode = s->mode,
				      .n = s->qps,
				      .qp = qp,
				      .notify = notify,
				      .cap = CAP,
				      .frag = s->frag };

	for (unsigned d = 0; d < DEVICES; d++)
		cqs[d] = n->dev[d].cq;
	for (unsigned i = 0; i < s->qps; i++) {
		n->data[i] = make_qp(&n->dev[i % DEVICES]);
		qp[i] = (struct mpib_vqp_qp){ n->data[i],
					      (uint8_t)(i % DEVICES) };
	}
	for (unsigned d = 0;
	     s->mode == MPIB_VQP_SPRAY && s->qps > 1 && d < DEVICES; d++) {
		n->notify[d] = make_qp(&n->dev[d]);
		notify[d] = (struct mpib_vqp_qp){ n->notify[d], (uint8_t)d };
		attr.notifies++;
	}
	must(mpib_wr_pool_init(&n->pool), "WR pool");
	must(mpib_vcq_create(cqs, DEVICES, &n->pool, &n->vcq), "virtual CQ");
	must(mpib_vqp_create(n->vcq, &attr, &n->vqp), "virtual QP");
	must(mpib_vqp_prepare(n->vqp), "receives");
}

static void connect_all(const struct shape *s)
{
	for (unsigned i = 0; i < 2; i++) {
		struct node *a = &node[i], *b = &node[!i];

		for (unsigned q = 0; q < s->qps; q++)
			connect_qp(a->data[q], b->data[q],
				   &b->dev[q % DEVICES]);
		for (unsigned d = 0; d < DEVICES; d++) {
			if (a->notify[d])
				connect_qp(a->notify[d], b->notify[d],
					   &b->dev[d]);
		}
	}
}

static void drop_qp(struct ibv_qp **qp)
{
	if (*qp)
		must(v->destroy_qp(*qp), "QP away");
	*qp = NULL;
}

static void to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	if (qp)
		must(v->modify_qp(qp, &err, IBV_QP_STATE), "QP to ERR");
}

static void take_down(struct node *n, const struct shape *s)
{
	struct mpib_vwc wc[16];

	for (unsigned i = 0; i < s->qps; i++)
		to_err(n->data[i]);
	for (unsigned d = 0; d < DEVICES; d++)
		to_err(n->notify[d]);
	while (mpib_vqp_destroy(n->vqp) < 0)
		mpib_vcq_poll(n->vcq, 16, wc);
	for (unsigned i = 0; i < s->qps; i++)
		drop_qp(&n->data[i]);
	for (unsigned d = 0; d < DEVICES; d++)
		drop_qp(&n->notify[d]);
	mpib_vcq_destroy(n->vcq);
	mpib_wr_pool_fini(&n->pool);
}

static void post(uint64_t i, const struct shape *s)
{
	struct mpib_vrecv r = { .wr_id = i };
	struct mpib_vsend w = {
		.wr_id = i,
		.length = s->size,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = IBV_SEND_SIGNALED,
		.devices = (1u << DEVICES) - 1,
	};
	uint64_t off = i % INFLIGHT * s->size;

	w.local = (uint64_t)(uintptr_t)node[0].mem + off;
	w.remote = (uint64_t)(uintptr_t)node[1].mem + off;
	for (unsigned d = 0; d < DEVICES; d++) {
		w.key[d].lkey = node[0].dev[d].mr->lkey;
		w.key[d].rkey = node[1].dev[d].mr->rkey;
	}
	must(mpib_vqp_post_recv(node[1].vqp, &r), "receive");
	must(mpib_vqp_post_send(node[0].vqp, &w), "send");
}

static unsigned take(struct node *n)
{
	struct mpib_vwc wc[16];
	int got = mpib_vcq_poll(n->vcq, 16, wc);

	for (int i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			peer_die("%s of message %llu: %s",
				 wc[i].recv ? "receive" : "send",
				 (unsigned long long)wc[i].wr_id,
				 ibv_wc_status_str(wc[i].status));
	}
	return (unsigned)got;
}

static void run(const struct shape *s, const char *name)
{
	unsigned posted = 0, sent = 0, got = 0;
	struct mpib_vcq_counts tx, rx;
	uint64_t start;
	double sec;

	for (unsigned i = 0; i < 2; i++)
		make_vqp(&node[i], s);
	connect_all(s);
	start = peer_ns();
	while (sent < s->messages || got < s->messages) {
		while (posted < s->messages && posted - sent < INFLIGHT &&
		       posted - got < INFLIGHT)
			post(posted++, s);
		sent += take(&node[0]);
		got += take(&node[1]);
	}
	sec = (double)(peer_ns() - start) / 1e9;
	mpib_vcq_counts(node[0].vcq, &tx);
	mpib_vcq_counts(node[1].vcq, &rx);
	printf("%-6s %6u %10llu %10u %9.1f %9.2f %9.2f %9.2f %9.2f\n", name,
	       s->qps, (unsigned long long)s->size, s->frag,
	       (double)s->size * s->messages / sec / 1e6,
	       (double)tx.wrs / s->messages, (double)tx.doorbells / s->messages,
	       (double)tx.cqes / s->messages, (double)rx.cqes / s->messages);
	if (memcmp(node[0].mem, node[1].mem, bytes) != 0)
		peer_die("%s: what arrived is not what was sent", name);
	memset(node[1].mem, 1, bytes);
	for (unsigned i = 0; i < 2; i++)
		take_down(&node[i], s);
}

int main(int argc, char **argv)
{
	static const char *const name[] = { "SPLIT", "SPRAY", "DQPLB" };
	struct shape s;

	peer_args(argc, argv, 5, 5, "NET QPS SIZE FRAGMENT MESSAGES");
	s.qps = (unsigned)peer_size("QPS", argv[2], 2, MPIB_VQP_QPS);
	s.size = peer_size("SIZE", argv[3], 1, 1 << 30);
	s.frag = (uint32_t)peer_size("FRAGMENT", argv[4], 1, 1 << 30);
	s.messages = (unsigned)peer_size("MESSAGES", argv[5], INFLIGHT,
					 UINT32_MAX / 2);
	bytes = (size_t)s.size * INFLIGHT;
	for (unsigned i = 0; i < 2; i++)
		open_node(&node[i], argv[1], i);
	for (unsigned m = 0; m < 3; m++) {
		s.mode = (enum mpib_vqp_mode)m;
		run(&s, name[m]);
	}
	return 0;
}
