/* SPDX-License-Identifier: Apache-2.0 */
/* Injected faults of a port. Random faults are drawn from a seed. */
#include "verbs/soft/ctx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/log.h"
#include "base/text.h"
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

bool soft_fault_slow(struct soft_qp *qp)
{
	const struct mpib_soft_fault *f = &qp->ctx->fault;
	bool slow = f->delay_turns || f->delay_ns;

	if (!slow)
		qp->hold_until = 0; /* the delay has ended */
	return slow;
}

/* The caller holds ctx->lock. */
static void fault_apply(struct soft_ctx *ctx,
			const struct mpib_soft_fault *fault)
{
	if (fault->seed != ctx->fault.seed)
		ctx->rng = fault->seed;
	if (!fault->link_down != !ctx->fault.link_down)
		soft_port_event(ctx);
	ctx->fault = *fault;
	ctx->paused = fault->link_down || fault->black_hole;
	fault_look_again(ctx);
	/* time before this call does not count for the rate limit */
	ctx->rate_at = mpib_now_ns();
	if (fault->gone)
		soft_die(ctx);
}

int mpib_soft_set_fault(struct ibv_context *c,
			const struct mpib_soft_fault *fault)
{
	struct soft_ctx *ctx = to_ctx(c);

	soft_lock(ctx);
	fault_apply(ctx, fault);
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
 * Faults from outside the process. MPIB_SOFT_FAULTS names a directory. A file
 * in this directory whose name is the address of a device sets the faults of
 * that device: the first line of the file lists them. Each context reads the
 * file again every FAULT_LOOKS_EVERY ns. inotify would make these reads
 * unnecessary, but on a busy machine the kernel may take minutes to close an
 * inotify descriptor.
 */

#define FAULT_LOOKS_EVERY (20 * SOFT_MS)

/* If the word begins with `name`, set *value to the number that follows, in
 * units of `factor`. */
static bool fault_number(const char *word, const char *name, uint64_t factor,
			 uint64_t *value)
{
	uint64_t n;

	if (strncmp(word, name, strlen(name)) != 0 ||
	    !mpib_number(word + strlen(name), 1, 1000000, &n))
		return false;
	*value = n * factor;
	return true;
}

static bool fault_word(const char *word, struct mpib_soft_fault *fault)
{
	if (!strcmp(word, "gone"))
		fault->gone = 1;
	else if (!strcmp(word, "link-down"))
		fault->link_down = 1;
	else if (!strcmp(word, "black-hole"))
		fault->black_hole = 1;
	else
		return fault_number(word, "rate=", 125000,
				    &fault->rate_bytes_per_s) ||
		       fault_number(word, "delay=", 1000, &fault->delay_ns);
	return true;
}

/* Read the device's file. Return false if it has not changed. */
static bool fault_read(struct soft_ctx *ctx, struct mpib_soft_fault *fault)
{
	char addr[INET_ADDRSTRLEN], text[sizeof(ctx->fault_text)];
	char *word, *save;

	inet_ntop(AF_INET, &ctx->addr, addr, sizeof(addr));
	mpib_read_line(text, sizeof(text), "%s/%s", getenv("MPIB_SOFT_FAULTS"),
		       addr);
	if (!strcmp(text, ctx->fault_text))
		return false;
	memcpy(ctx->fault_text, text, sizeof(text));
	*fault = (struct mpib_soft_fault){ 0 };
	for (word = strtok_r(text, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (!fault_word(word, fault))
			mpib_warn("MPIB_SOFT_FAULTS: %s: there is no fault "
				  "\"%s\" (mpib-softverbs(7) lists them)",
				  addr, word);
	}
	return true;
}

int soft_faults_begin(struct soft_ctx *ctx)
{
	struct mpib_soft_fault fault = { 0 };

	if (!getenv("MPIB_SOFT_FAULTS"))
		return 0;
	ctx->faults_at = mpib_now_ns() + FAULT_LOOKS_EVERY;
	fault_read(ctx, &fault);
	if (fault.gone)
		return -ENODEV;
	fault_apply(ctx, &fault);
	return 0;
}

void soft_faults_look(struct soft_ctx *ctx, uint64_t now)
{
	struct mpib_soft_fault fault;

	ctx->faults_at = now + FAULT_LOOKS_EVERY;
	if (fault_read(ctx, &fault))
		fault_apply(ctx, &fault);
}

/*
 * Loss of a device, by a failure or removal, while a context is open. The
 * context raises one last event, DEVICE_FATAL. After the loss no data moves, no
 * WR is flushed, and only control verbs that destroy objects work. rdma-core
 * treats a device that the kernel removed in the same way. The context stays
 * dead. The device can be opened again after it has returned.
 */
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
