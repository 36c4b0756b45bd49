/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes, one of which exits with what it received, and several contexts on
 * one address. Two that exchange bytes are in tests/softverbs.
 */
#include "vt.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SIZE = 100000,
	MESSAGES = 100
};

struct card {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

/* Either side of the pair, with the port of its own. */
struct side {
	const struct mpib_verbs *v;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct card card;
};

static int side_open(struct side *s, const char *text)
{
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 64,
						  .max_recv_wr = 64,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct mpib_port_info info;
	struct mpib_rail_spec spec;
	char why[100];
	int rc;

	rc = mpib_rail_spec_parse(text, &spec, why, sizeof(why));
	s->v = mpib_verbs_of(&spec);
	s->mem = calloc(1, SIZE);
	rc = rc ?: s->v->open(&spec, &s->ctx);
	rc = rc ?: s->v->query_port(s->ctx, 1, &info);
	rc = rc ?: s->v->alloc_pd(s->ctx, &s->pd);
	rc = rc ?: s->v->create_cq(s->ctx, 256, NULL, NULL, &s->cq);
	init.send_cq = s->cq;
	init.recv_cq = s->cq;
	rc = rc ?: s->v->create_qp(s->pd, &init, &s->qp);
	rc = rc
		     ?: s->v->reg_mr(s->pd, s->mem, SIZE, (uintptr_t)s->mem,
				     VT_ALL, &s->mr);
	if (!rc)
		s->card = (struct card){ .qpn = s->qp->qp_num,
					 .rkey = s->mr->rkey,
					 .addr = (uintptr_t)s->mem,
					 .gid = info.gid };
	return rc;
}

static int side_connect(struct side *s, const struct card *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = VT_ALL,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->qpn & 0xffff,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid, .sgid_index = 1 } },
		.sq_psn = s->qp->qp_num & 0xffff,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	int rc = s->v->modify_qp(s->qp, &a,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					 IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	a.qp_state = IBV_QPS_RTR;
	rc = rc
		     ?: s->v->modify_qp(
				s->qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER);
	a.qp_state = IBV_QPS_RTS;
	return rc
		       ?: s->v->modify_qp(s->qp, &a,
					  IBV_QP_STATE | IBV_QP_TIMEOUT |
						  IBV_QP_RETRY_CNT |
						  IBV_QP_RNR_RETRY |
						  IBV_QP_SQ_PSN |
						  IBV_QP_MAX_QP_RD_ATOMIC);
}

static int side_close(struct side *s)
{
	int rc = s->v->destroy_qp(s->qp);

	rc = rc ?: s->v->dereg_mr(s->mr);
	rc = rc ?: s->v->destroy_cq(s->cq);
	rc = rc ?: s->v->dealloc_pd(s->pd);
	rc = rc ?: s->v->close(s->ctx);
	free(s->mem);
	return rc;
}

static bool meet(struct side *s, int fd, struct card *peer)
{
	return write(fd, &s->card, sizeof(s->card)) == sizeof(s->card) &&
	       read(fd, peer, sizeof(*peer)) == sizeof(*peer) &&
	       side_connect(s, peer) == 0 && write(fd, "r", 1) == 1 &&
	       read(fd, &(char){ 0 }, 1) == 1;
}

/* Receive one message, and exit without another word. */
static int hear_and_exit(int fd, const char *text)
{
	int64_t until = vt_ms() + 50000;
	struct side s = { 0 };
	struct card peer;
	struct ibv_wc wc;

	if (side_open(&s, text))
		return 2;
	if (!meet(&s, fd, &peer) || vt_recv(s.qp, 1, NULL, 0))
		return 4;
	while (ibv_poll_cq(s.cq, 1, &wc) != 1)
		if (vt_ms() > until)
			return 5;
	return wc.status;
}

static pid_t spawn(int *fd, const char *text)
{
	int sv[2];
	pid_t pid;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(sv[0]);
		_exit(hear_and_exit(sv[1], text));
	}
	close(sv[1]);
	*fd = sv[0];
	return pid;
}

static struct ibv_wc wait_wc(struct side *s)
{
	int64_t until = vt_ms() + 60000;
	struct ibv_wc wc;

	while (ibv_poll_cq(s->cq, 1, &wc) != 1) {
		assert_true(vt_ms() < until);
		sched_yield();
	}
	return wc;
}

static void post_write(struct side *s, const struct card *peer, uint32_t len)
{
	struct ibv_sge sge = { .addr = s->card.addr,
			       .length = len,
			       .lkey = s->mr->lkey };

	assert_int_equal(vt_write_imm(s->qp, 2, IBV_SEND_SIGNALED, 0, &sge, 1,
				      peer->addr, peer->rkey),
			 0);
}

static void who_exits_with_its_receive_is_no_failure_to_the_sender(void **state)
{
	for (int round = 0; round < 5; round++) {
		/* The smaller address dials, once the one, once the other. */
		const char *own =
			round & 1 ? "soft:127.21.1.3" : "soft:127.21.1.1";
		struct side s = { 0 };
		struct card peer;
		int fd, status;
		pid_t pid = spawn(&fd, "soft:127.21.1.2");

		assert_int_equal(side_open(&s, own), 0);
		assert_true(meet(&s, fd, &peer));
		post_write(&s, &peer, (uint32_t)round * 20000);
		assert_int_equal(wait_wc(&s).status, IBV_WC_SUCCESS);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(side_close(&s), 0);
		close(fd);
	}
}

static void processes_on_one_address_get_slots_of_their_own(void **state)
{
	struct side s[3] = { 0 };

	for (int i = 0; i < 3; i++)
		assert_int_equal(side_open(&s[i], "soft:127.21.1.1"), 0);
	for (int i = 1; i < 3; i++)
		assert_true(s[i].card.qpn >> 16 != s[i - 1].card.qpn >> 16);
	assert_int_equal(side_connect(&s[0], &s[1].card), 0);
	assert_int_equal(side_connect(&s[1], &s[0].card), 0);
	assert_int_equal(vt_recv(s[1].qp, 1, NULL, 0), 0);
	post_write(&s[0], &s[1].card, 1000);
	for (int got = 0; got < 2;) {
		struct ibv_wc wc;

		got += ibv_poll_cq(s[0].cq, 1, &wc);
		got += ibv_poll_cq(s[1].cq, 1, &wc);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(side_close(&s[i]), 0);
}

static void an_address_that_is_not_ours_is_no_device(void **state)
{
	struct side s = { 0 };

	assert_int_equal(side_open(&s, "soft:203.0.113.77"), -ENODEV);
	free(s.mem);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(
		who_exits_with_its_receive_is_no_failure_to_the_sender),
	cmocka_unit_test(processes_on_one_address_get_slots_of_their_own),
	cmocka_unit_test(an_address_that_is_not_ours_is_no_device),
	{ 0 },
};
