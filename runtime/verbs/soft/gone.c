/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that fails for good, or is pulled out, while a context is open. The
 * context raises one last event, DEVICE_FATAL; from then on nothing moves,
 * nothing is flushed, and the only control verbs that work are those that
 * destroy objects. rdma-core treats a device that the kernel took away in the
 * same way. The context stays dead; the device can be opened anew when it is
 * there again.
 *
 * A device is missing, for all processes, while the directory that
 * MPIB_SOFT_GONE names has a file whose name is the device's address. gone_fd,
 * an inotify fd, wakes threads that sleep. For this process alone it is missing
 * while mpib_soft_hide() says so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/soft.h"
#include "verbs/verbs.h"

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
	/* Relaxed: an address, and nothing that has to be seen with it. */
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
	/* Look after the watch was added: a file that comes at this moment is
	 * seen by the look or by the watch. */
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
	 * gone sees all that moved before. */
	atomic_store_explicit(&ctx->gone, 1, memory_order_release);
	timerfd_settime(ctx->timer_fd, 0, &never, NULL);
	soft_event(ctx, &ctx->gone_ev, IBV_EVENT_DEVICE_FATAL);
	soft_channels_die(ctx);
}
