/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flood of connections to the port of a software rail. The number of accepted
 * connections per turn and per second is limited, and waiting connections wake
 * no thread. A peer that connects during the flood is still answered. The clock
 * stands still unless a test advances it.
 */
#include "liar.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/wire/soft_conn.h"

#define FLOOD (SOFT_ACCEPTS_AT_ONCE + 100)

static uint64_t now_ns;
static unsigned accepted;
static int fd[FLOOD];

WRAPS(int, clock_gettime, clockid_t id, struct timespec *ts)
{
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

WRAPS(int, accept4, int lfd, struct sockaddr *sa, socklen_t *len, int flags)
{
	int rc = __real_accept4(lfd, sa, len, flags);

	accepted += rc >= 0;
	return rc;
}

static void flood(struct vt *t, uint32_t qpn)
{
	struct rlimit lim;

	/* Both ends of each connection are in this process. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
	now_ns = 1000000000;
	accepted = 0;
	for (unsigned i = 0; i < FLOOD; i++)
		fd[i] = liar_dial(t, qpn);
}

static void ebb(void)
{
	for (unsigned i = 0; i < FLOOD; i++)
		close(fd[i]);
}

/* Make turns until the port accepts no more connections. Return how many it
 * accepted. */
static unsigned accepts_now(struct vt *t)
{
	unsigned from = accepted, before;

	for (unsigned rest = 0; rest < 8; rest++) {
		before = accepted;
		soft_turn(to_ctx(t->a.ctx));
		assert_in_range(accepted - before, 0, SOFT_ACCEPTS_A_TURN);
		if (accepted != before)
			rest = 0;
	}
	return accepted - from;
}

vt_test(accepts_are_limited_per_turn_and_over_time)
{
	const unsigned every = SOFT_ACCEPT_EVERY, batch = SOFT_ACCEPTS_A_TURN;
	struct ibv_qp *qp = liar_victim(t);

	flood(t, qp->qp_num);
	assert_int_equal(accepts_now(t), SOFT_ACCEPTS_AT_ONCE);
	/* Later, the port accepts as many connections as the rate allows, in
	 * batches. */
	now_ns += every;
	assert_int_equal(accepts_now(t), 0);
	now_ns += every * (batch - 1);
	assert_int_equal(accepts_now(t), batch);
	now_ns += every * batch * 10;
	assert_int_equal(accepts_now(t), batch * 10);
	ebb();
}

vt_test(connections_that_wait_do_not_wake_a_thread)
{
	struct ibv_qp *qp = liar_victim(t);
	struct soft_ctx *ctx = to_ctx(t->a.ctx);
	struct pollfd port;

	flood(t, qp->qp_num);
	accepts_now(t);
	port = (struct pollfd){ .fd = ctx->listen_fd, .events = POLLIN };
	assert_int_equal(poll(&port, 1, 0), 1); /* connections are waiting */
	assert_false(ctx->listen_watched);
	assert_false(ctx->accept_ready);
	assert_int_equal(ctx->accept_at,
			 now_ns + SOFT_ACCEPTS_A_TURN * SOFT_ACCEPT_EVERY);
	now_ns += FLOOD * SOFT_ACCEPT_EVERY;
	accepts_now(t);
	assert_int_equal(accepted, FLOOD);
	/* No connection is waiting, so the port is polled again. */
	assert_true(ctx->listen_watched);
	ebb();
}

vt_test(a_peer_behind_a_flood_is_answered)
{
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp);
	int peer;

	flood(t, qp->qp_num);
	peer = liar_dial(t, qp->qp_num);
	accepts_now(t);
	now_ns += (FLOOD + 1) * SOFT_ACCEPT_EVERY;
	assert_int_equal(liar_greet(t, peer, &h), SOFT_HELLO_OK);
	close(peer);
	ebb();
}
