/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare the modes of the virtual QP over plain libibverbs: two nodes in one
 * process, on one device or two. Print the cost of a message, which depends
 * only on the mode, and the bandwidth, which depends on the machine. The last
 * run breaks one QP half way and replays its fragments.
 *
 *   cc -o mpib-vqp vqp.c $(pkg-config --cflags --libs mpib-vqp)
 */
#include <errno.h>
#include <mpib/vqp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define USAGE "DEVICE[,DEVICE] GID-INDEX [QPS SIZE FRAGMENT MESSAGES]"
#define CAP 16
#define INFLIGHT 16
#define PSN 17

struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_port_attr port;
	union ibv_gid gid;
};

struct node {
	struct device dev[MPIB_VQP_DEVICES];
	struct ibv_qp *data[MPIB_VQP_QPS], *notify[MPIB_VQP_DEVICES];
	struct mpib_wr_pool pool;
	struct mpib_vcq *vcq;
	struct mpib_vqp *vqp;
	char *mem;
};

struct shape {
	const char *name;
	enum mpib_vqp_mode mode;
	bool breaks; /* break one QP half way */
	unsigned devices, gid, qps, messages;
	uint64_t size;
	uint32_t frag;
};

static struct node node[2];
static size_t bytes;

/* `rc` is 0, a positive errno of verbs, or a negative errno. */
static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "mpib-vqp: %s: %s (ibv_devinfo -v shows the device)\n",
		what, strerror(rc < 0 ? -rc : rc));
	exit(1);
}

static void *made(void *object, const char *what)
{
	must(object ? 0 : errno ? errno : ENODEV, what);
	return object;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **all = made(ibv_get_device_list(NULL), "devices");
	struct ibv_context *ctx = NULL;

	for (unsigned i = 0; all[i]; i++) {
		if (!strcmp(ibv_get_device_name(all[i]), name))
			ctx = made(ibv_open_device(all[i]), name);
	}
	ibv_free_device_list(all);
	errno = ENODEV;
	return made(ctx, name);
}

static void open_node(struct node *n, char *names, const struct shape *s)
{
	char *save, *name = strtok_r(names, ",", &save);

	n->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(n->mem == MAP_FAILED ? errno : 0, "memory");
	memset(n->mem, n == &node[0] ? 'x' : 0, bytes);
	for (unsigned d = 0; d < s->devices; d++) {
		struct device *dev = &n->dev[d];

		dev->ctx = open_device(name);
		must(ibv_query_port(dev->ctx, 1, &dev->port), "port");
		must(ibv_query_gid(dev->ctx, 1, (int)s->gid, &dev->gid), "GID");
		dev->pd = made(ibv_alloc_pd(dev->ctx), "PD");
		/* Entries for one virtual QP: 2 * CAP for each data QP, and 2 *
		 * CAP for the notify QP. */
		dev->cq = made(ibv_create_cq(dev->ctx,
					     (int)(2 * CAP * (s->qps + 1)),
					     NULL, NULL, 0),
			       "CQ");
		dev->mr = made(ibv_reg_mr(dev->pd, n->mem, bytes,
					  IBV_ACCESS_LOCAL_WRITE |
						  IBV_ACCESS_REMOTE_WRITE),
			       "region");
		name = strtok_r(NULL, ",", &save);
	}
}

static struct ibv_qp *new_qp(struct device *dev)
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
	struct ibv_qp *qp = made(ibv_create_qp(dev->pd, &init), "QP");

	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS),
	     "QP to INIT");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *to,
		       const struct device *there, const struct shape *s)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = there->port.active_mtu,
		.dest_qp_num = to->qp_num,
		.rq_psn = PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .port_num = 1,
			     .dlid = there->port.lid,
			     .is_global = 1,
			     .grh = { .dgid = there->gid,
				      .sgid_index = (uint8_t)s->gid,
				      .hop_limit = 255 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = PSN,
		.max_rd_atomic = 1,
	};

	must(ibv_modify_qp(qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER),
	     "QP to RTR");
	must(ibv_modify_qp(qp, &rts,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC),
	     "QP to RTS");
}

static void make_vqp(struct node *n, const struct shape *s)
{
	struct mpib_vqp_qp qp[MPIB_VQP_QPS], notify[MPIB_VQP_DEVICES];
	struct ibv_cq *cqs[MPIB_VQP_DEVICES];
	struct mpib_vqp_attr attr = { .mode = s->mode,
				      .n = s->qps,
				      .qp = qp,
				      .notify = notify,
				      .cap = CAP,
				      .frag = s->frag,
				      .replay = s->breaks };

	for (unsigned d = 0; d < s->devices; d++)
		cqs[d] = n->dev[d].cq;
	for (unsigned i = 0; i < s->qps; i++) {
		unsigned d = i % s->devices;

		n->data[i] = new_qp(&n->dev[d]);
		qp[i] = (struct mpib_vqp_qp){ n->data[i], (uint8_t)d };
	}
	for (unsigned d = 0; s->mode == MPIB_VQP_SPRAY && d < s->devices; d++) {
		n->notify[d] = new_qp(&n->dev[d]);
		notify[d] = (struct mpib_vqp_qp){ n->notify[d], (uint8_t)d };
		attr.notifies++;
	}
	must(mpib_wr_pool_init(&n->pool), "WR pool");
	must(mpib_vcq_create(cqs, s->devices, &n->pool, &n->vcq), "virtual CQ");
	must(mpib_vqp_create(n->vcq, &attr, &n->vqp), "virtual QP");
	must(mpib_vqp_prepare(n->vqp), "receives");
}

static void connect_all(const struct shape *s)
{
	for (unsigned i = 0; i < 2; i++) {
		struct node *a = &node[i], *b = &node[!i];

		for (unsigned q = 0; q < s->qps; q++)
			connect_qp(a->data[q], b->data[q],
				   &b->dev[q % s->devices], s);
		for (unsigned d = 0; a->notify[0] && d < s->devices; d++)
			connect_qp(a->notify[d], b->notify[d], &b->dev[d], s);
	}
}

static void to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	must(ibv_modify_qp(qp, &err, IBV_QP_STATE), "QP to ERR");
}

static void take_down(struct node *n, const struct shape *s)
{
	struct mpib_vwc wc[16];

	for (unsigned i = 0; i < s->qps; i++)
		to_err(n->data[i]);
	for (unsigned d = 0; n->notify[0] && d < s->devices; d++)
		to_err(n->notify[d]);
	while (mpib_vqp_destroy(n->vqp) < 0)
		mpib_vcq_poll(n->vcq, 16, wc);
	for (unsigned i = 0; i < s->qps; i++)
		must(ibv_destroy_qp(n->data[i]), "ibv_destroy_qp");
	for (unsigned d = 0; n->notify[0] && d < s->devices; d++)
		must(ibv_destroy_qp(n->notify[d]), "ibv_destroy_qp");
	memset(n->notify, 0, sizeof(n->notify));
	mpib_vcq_destroy(n->vcq);
	mpib_wr_pool_fini(&n->pool);
}

static void post(uint64_t i, const struct shape *s)
{
	uint64_t off = i % INFLIGHT * s->size;
	struct mpib_vrecv r = { .wr_id = i };
	struct mpib_vsend w = {
		.wr_id = i,
		.local = (uint64_t)(uintptr_t)node[0].mem + off,
		.remote = (uint64_t)(uintptr_t)node[1].mem + off,
		.length = s->size,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = IBV_SEND_SIGNALED,
		.devices = (1u << s->devices) - 1,
	};

	for (unsigned d = 0; d < s->devices; d++) {
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

	must(got < 0 ? got : 0, "poll");
	for (int i = 0; i < got; i++)
		must(wc[i].status == IBV_WC_SUCCESS ? 0 : EIO,
		     ibv_wc_status_str(wc[i].status));
	return (unsigned)got;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Send all messages, at most INFLIGHT at a time. */
static void exchange(const struct shape *s)
{
	unsigned posted = 0, sent = 0, got = 0;

	while (sent < s->messages || got < s->messages) {
		while (posted < s->messages && posted - sent < INFLIGHT &&
		       posted - got < INFLIGHT) {
			post(posted++, s);
			if (!s->breaks || posted != s->messages / 2)
				continue;
			/* Stop the QP at both ends, so that no late fragment
			 * arrives. */
			to_err(node[0].data[0]);
			to_err(node[1].data[0]);
		}
		sent += take(&node[0]);
		got += take(&node[1]);
		if (s->breaks && mpib_vqp_replay(node[0].vqp) == -ENETDOWN)
			must(-ENETDOWN, "replay");
	}
}

static void run(const struct shape *s)
{
	struct mpib_vcq_counts tx, rx;
	double sec, n = s->messages;
	uint64_t start;

	for (unsigned i = 0; i < 2; i++)
		make_vqp(&node[i], s);
	connect_all(s);
	start = now_ns();
	exchange(s);
	sec = (double)(now_ns() - start) / 1e9;
	mpib_vcq_read_counts(node[0].vcq, &tx);
	mpib_vcq_read_counts(node[1].vcq, &rx);
	printf("%-6s %6u %10llu %10u %9.1f %9.2f %9.2f %9.2f %9.2f %6llu\n",
	       s->name, s->qps, (unsigned long long)s->size, s->frag,
	       (double)s->size * n / sec / 1e6, (double)tx.wrs / n,
	       (double)tx.doorbells / n, (double)tx.cqes / n,
	       (double)rx.cqes / n, (unsigned long long)tx.replayed);
	must(memcmp(node[0].mem, node[1].mem, bytes) ? EBADMSG : 0, s->name);
	memset(node[1].mem, 0, bytes);
	for (unsigned i = 0; i < 2; i++)
		take_down(&node[i], s);
}

static unsigned number(const char *word, unsigned min, unsigned max)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	if (*word && !*end && *word != '-' && n >= min && n <= max)
		return (unsigned)n;
	fprintf(stderr,
		"mpib-vqp: command line: \"%s\" is not a number from %u to %u "
		"(see --help)\n",
		word, min, max);
	exit(2);
}

static void words(int argc, char **argv, struct shape *s)
{
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		puts("Usage: mpib-vqp " USAGE);
		exit(0);
	}
	if (argc != 3 && argc != 7) {
		fprintf(stderr,
			"mpib-vqp: command line: expected 2 or 6 words, not "
			"%d (see --help)\n",
			argc - 1);
		exit(2);
	}
	s->devices = strchr(argv[1], ',') ? 2 : 1;
	s->gid = number(argv[2], 0, 255);
	s->qps = argc == 3 ? 8 : number(argv[3], 2, 2048 / CAP);
	s->size = argc == 3 ? 1 << 20 : number(argv[4], 1, 1 << 30);
	s->frag = argc == 3 ? 64 << 10 : number(argv[5], 128, 1 << 30);
	s->messages = argc == 3 ? 200 : number(argv[6], INFLIGHT, 1 << 30);
}

int main(int argc, char **argv)
{
	struct shape s = { .mode = MPIB_VQP_SPLIT, .name = "SPLIT" };
	char *again;

	words(argc, argv, &s);
	bytes = (size_t)s.size * INFLIGHT;
	again = made(strdup(argv[1]), "memory");
	open_node(&node[0], argv[1], &s);
	open_node(&node[1], again, &s);
	run(&s);
	s.mode = MPIB_VQP_SPRAY;
	s.name = "SPRAY";
	run(&s);
	s.mode = MPIB_VQP_DQPLB;
	s.name = "DQPLB";
	run(&s);
	s.breaks = true;
	s.name = "broken";
	run(&s);
	free(again);
	return 0;
}
