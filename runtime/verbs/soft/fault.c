/* SPDX-License-Identifier: Apache-2.0 */
/* Injected faults of a port. Random faults are drawn from a seed. */
#include "verbs/soft/ctx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/soft_conn.h"
#include "verbs/verbs.h"

static uint64_t fault_rand(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Resume the work that connections deferred while no data could pass. */
static void fault_look_again(struct soft_ctx *ctx)
{
	for (uint32_t i = 0; i < ctx->conn_size; i++) {
		if (ctx->conn_tab[i])
			soft_conn_ready(ctx->conn_tab[i]);
	}
}

static bool fault_meets(const struct soft_qp *qp)
{
	uint32_t only = qp->ctx->fault.only;

	return !only || qp->peer_addr.s_addr == only;
}

bool soft_fault_holes(const struct soft_qp *qp)
{
	return qp && qp->ctx->fault.black_hole && fault_meets(qp);
}

bool soft_fault_slow(struct soft_qp *qp)
{
	const struct mpib_soft_fault *f = &qp->ctx->fault;
	bool slow = f->delay_turns || (f->delay_ns && fault_meets(qp));

	if (!slow)
		qp->hold_until = 0; /* the delay has ended */
	return slow;
}

uint32_t mpib_soft_peer(const struct ibv_qp *qp)
{
	return ((const struct soft_qp *)qp)->peer_addr.s_addr;
}

int mpib_soft_set_fault(struct ibv_context *c,
			const struct mpib_soft_fault *fault)
{
	struct soft_ctx *ctx = to_ctx(c);

	soft_lock(ctx);
	if (fault->seed != ctx->fault.seed)
		ctx->rng = fault->seed;
	if (!fault->link_down != !ctx->fault.link_down)
		soft_port_event(ctx);
	ctx->fault = *fault;
	ctx->paused = fault->link_down || (fault->black_hole && !fault->only);
	fault_look_again(ctx);
	/* the time before this call gives no credit */
	ctx->rate_at = mpib_now_ns();
	if (fault->gone)
		soft_die(ctx);
	soft_unlock(ctx);
	return 0;
}

bool soft_fault_hold(struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->ctx;
	bool by_time = ctx->fault.delay_ns;
	uint64_t now = by_time ? mpib_now_ns() : ctx->turn;

	if (!qp->hold_until && by_time)
		qp->hold_until = now + ctx->fault.delay_ns;
	else if (!qp->hold_until)
		qp->hold_until =
			now + fault_rand(&ctx->rng) %
				      ((uint64_t)ctx->fault.delay_turns + 1);
	if (now < qp->hold_until)
		return true;
	qp->hold_until = 0;
	return false;
}

/*
 * Loss of a device, by a failure or removal, while a context is open. The
 * context raises one last event, DEVICE_FATAL. After the loss no data moves, no
 * WR is flushed, and only control verbs that destroy objects work. rdma-core
 * treats a device that the kernel removed in the same way. The context stays
 * dead. The device can be opened again after it has returned.
 *
 * MPIB_SOFT_GONE names a directory. While this directory contains a file named
 * after a device's address, all processes treat the device as missing. gone_fd,
 * an inotify fd, wakes sleeping threads. mpib_soft_hide() makes a device
 * missing for this process only.
 */

#define HIDDEN_MAX 32

static bool is_missing(const struct soft_ctx *ctx)
{
	char path[256], addr[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &ctx->addr, addr, sizeof(addr));
	return snprintf(path, sizeof(path), "%s/%s", getenv("MPIB_SOFT_GONE"),
			addr) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

static _Atomic uint32_t hidden[HIDDEN_MAX]; /* IPv4, network order; 0: none */

static bool is_hidden(uint32_t addr)
{
	/* Relaxed: nothing else is published with the address. */
	for (unsigned i = 0; i < HIDDEN_MAX; i++) {
		if (atomic_load_explicit(&hidden[i], memory_order_relaxed) ==
		    addr)
			return true;
	}
	return false;
}

bool mpib_soft_hide(const struct mpib_rail_spec *spec, bool hide)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, spec->name, &addr) != 1)
		return false;
	for (unsigned i = 0; i < HIDDEN_MAX; i++) {
		uint32_t from = hide ? 0 : addr.s_addr;

		if (hide && is_hidden(addr.s_addr))
			return true;
		if (atomic_compare_exchange_strong(&hidden[i], &from,
						   hide ? addr.s_addr : 0))
			return true;
	}
	return !hide;
}

int soft_gone_watch(struct soft_ctx *ctx)
{
	const char *dir = getenv("MPIB_SOFT_GONE");

	if (is_hidden(ctx->addr.s_addr))
		return -ENODEV;
	if (!dir)
		return 0;
	ctx->gone_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (ctx->gone_fd < 0 ||
	    inotify_add_watch(ctx->gone_fd, dir, IN_CREATE | IN_MOVED_TO) < 0)
		return -errno;
	/* Check after the watch was added: either the check or the watch
	 * notices a file that appears at this moment. */
	return is_missing(ctx) ? -ENODEV : 0;
}

void soft_gone_look(struct soft_ctx *ctx)
{
	char events[1024];

	if (read(ctx->gone_fd, events, sizeof(events)) > 0 && is_missing(ctx))
		soft_die(ctx);
}

void soft_die(struct soft_ctx *ctx)
{
	struct itimerspec never = { 0 };

	if (soft_is_gone(ctx))
		return;
	/* Release pairs with the acquire in soft_is_gone(): a thread that sees
	 * `gone` also sees all data that was moved before. */
	atomic_store_explicit(&ctx->gone, 1, memory_order_release);
	timerfd_settime(ctx->timer_fd, 0, &never, NULL);
	soft_event(ctx, &ctx->gone_ev, IBV_EVENT_DEVICE_FATAL);
	soft_channels_die(ctx);
}
