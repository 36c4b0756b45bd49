/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork() copies the memory of a context, but its sockets, event fds and ring
 * stay the parent's. So in the child a context behaves as if its device were
 * gone: nothing moves, no event comes, and objects can only be destroyed, which
 * sends nothing to the peers. The child may open devices of its own.
 */
#include <pthread.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"

static LIST_HEAD(, soft_ctx) contexts = LIST_HEAD_INITIALIZER(contexts);
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* In the parent, before fork(): take all locks, so that no turn is under way
 * when the memory is copied. */
static void fork_before(void)
{
	struct soft_ctx *ctx;

	pthread_mutex_lock(&list_lock);
	LIST_FOREACH(ctx, &contexts, fork_link)
	{
		atomic_fetch_add(&ctx->waiters, 1);
		pthread_mutex_lock(&ctx->lock);
	}
}

static void in_parent(void)
{
	struct soft_ctx *ctx;

	LIST_FOREACH(ctx, &contexts, fork_link)
	{
		atomic_fetch_sub(&ctx->waiters, 1);
		soft_unlock(ctx);
	}
	pthread_mutex_unlock(&list_lock);
}

/* In the child, whose one thread holds the locks of fork_before(). All other
 * locks are made anew, as threads that held any are gone. */
static void fork_in_child(void)
{
	struct soft_channel *ch;
	struct soft_ctx *ctx;

	LIST_FOREACH(ctx, &contexts, fork_link)
	{
		ctx->foreign = true;
		pthread_mutex_unlock(&ctx->lock);
		pthread_mutex_init(&ctx->ev_lock, NULL);
		pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
		LIST_FOREACH(ch, &ctx->channels, link)
		pthread_mutex_init(&ch->lock, NULL);
		atomic_store(&ctx->waiters, 0);
		atomic_store(&ctx->gone, 1);
	}
	pthread_mutex_unlock(&list_lock);
}

static void fork_prepare(void)
{
	pthread_atfork(fork_before, in_parent, fork_in_child);
}

void soft_fork_add(struct soft_ctx *ctx)
{
	pthread_once(&once, fork_prepare);
	pthread_mutex_lock(&list_lock);
	LIST_INSERT_HEAD(&contexts, ctx, fork_link);
	pthread_mutex_unlock(&list_lock);
}

void soft_fork_remove(struct soft_ctx *ctx)
{
	pthread_mutex_lock(&list_lock);
	LIST_REMOVE(ctx, fork_link);
	pthread_mutex_unlock(&list_lock);
}
