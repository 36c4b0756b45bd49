/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fork() copies of a context is its memory; its sockets, its events and its
 * ring stay the parent's. So in the child a context is as one whose device is
 * gone: nothing moves, nothing is told, and what was made can only be destroyed,
 * without a word to anybody. The child may open devices of its own.
 */
#include <pthread.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"

static LIST_HEAD(, soft_ctx) contexts = LIST_HEAD_INITIALIZER(contexts);
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* No turn is under way when the memory is copied. */
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

/* Locks that other threads held: they are not here. */
static void fork_in_child(void)
{
	struct soft_channel *ch;
	struct soft_ctx *ctx;

	LIST_FOREACH(ctx, &contexts, fork_link)
	{
		ctx->foreign = true;
		pthread_mutex_init(&ctx->lock, NULL);
		pthread_mutex_init(&ctx->ev_lock, NULL);
		pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
		LIST_FOREACH(ch, &ctx->channels, link)
		pthread_mutex_init(&ch->lock, NULL);
		atomic_store(&ctx->waiters, 0);
		atomic_store(&ctx->gone, 1);
	}
	pthread_mutex_init(&list_lock, NULL);
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
