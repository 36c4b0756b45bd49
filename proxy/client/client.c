/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a client, and taking it down: its connections first, then its regions,
 * then its segments. Control thread.
 */
#include "client/client.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/event.h"

/* How long a client that is gone keeps memory of devices, for peers that may
 * still write into it. The next job wants it, and nobody resets a GPU whose
 * memory is in use: it is free 100 ms after a rank's death. */
#define LET_GO (50 * MPIB_MSEC)

struct proxy_client *proxy_client_new(struct proxy_clients *all)
{
	struct proxy_client *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = all;
	s->sock = s->pidfd = s->doorbell = -1;
	LIST_INIT(&s->regions);
	TAILQ_INIT(&s->filling);
	return s;
}

void proxy_client_free(void *arg)
{
	struct proxy_client *s = arg;
	struct proxy_clients *all = s->all;

	mpib_timer_disarm(all->loop, &s->hello_timer);
	proxy_client_free_regions(s);
	assert(s->region_count == 0 && s->region_fds == 0);
	assert(s->registered == 0 && s->pooled == 0 && s->of_devices == 0);
	mpib_sum_take(&all->usage.mapped, s->segments);
	mpib_memseg_fini(&s->submit);
	mpib_memseg_fini(&s->reply);
	if (s->doorbell >= 0)
		close(s->doorbell);
	TAILQ_REMOVE(&all->list, s, link);
	mpib_quota_end(s);
	mpib_sum_less(&all->usage.clients);
	free(s->by_handle);
	free(s);
}

void proxy_client_count_segments(struct proxy_client *s)
{
	s->segments = s->submit.size + s->reply.size;
	s->all->usage.mapped += s->segments;
}

static void client_hang_up(struct proxy_client *s)
{
	mpib_timer_disarm(s->all->loop, &s->hello_timer);
	mpib_loop_del(s->all->loop, &s->sock_watch);
	mpib_close_of(s->uid, s->sock);
	s->sock = -1;
	if (s->pidfd >= 0) {
		mpib_loop_del(s->all->loop, &s->pid_watch);
		close(s->pidfd);
		s->pidfd = -1;
	}
}

void proxy_client_drop(struct proxy_client *s, const char *why)
{
	struct mpib_reply *reply = s->peer_client.reply;

	if (s->state > PROXY_CLIENT_LIVE)
		return;
	/* Release pairs with the acquire of a client that sees the hang-up. */
	if (reply)
		atomic_store_explicit(&reply->ended, 1, memory_order_release);
	client_hang_up(s);
	if (s->state == PROXY_CLIENT_NEW) {
		mpib_debug("a connection of pid %u ended before it attached: "
			   "%s",
			   s->pid, why);
		s->state = PROXY_CLIENT_CLOSING;
		/* Free it in the next turn: the callers still use s. */
		mpib_timer_arm(s->all->loop, &s->hello_timer, 0,
			       proxy_client_free, s);
		return;
	}
	mpib_event(MPIB_LOG_INFO, "client_leaves",
		   &(struct mpib_event_about){
			   .client = s->id, .of_user = true, .uid = s->uid },
		   "client %u (%s, pid %u) leaves: %s", s->id, s->name, s->pid,
		   why);
	s->all->usage.leaving++;
	mpib_survivors_leave(s->record);
	s->record = NULL;
	s->state = PROXY_CLIENT_CONNS;
	if (s->of_devices > 0)
		mpib_timer_arm(s->all->loop, &s->hello_timer, LET_GO,
			       proxy_client_let_go, s);
	proxy_client_stop_filling(s);
	proxy_client_drop_conns(s);
}

static void client_on_closed(void *arg, int status)
{
	struct proxy_client *s = arg;
	struct proxy_clients *all = s->all;

	(void)status;
	mpib_tenant_put(s->peer_client.tenant);
	mpib_sum_less(&all->on_shard[s->peer_client.shard]);
	mpib_sum_less(&all->usage.attached);
	mpib_sum_less(&all->usage.leaving);
	mpib_shares_apply_user(all, s->uid);
	mpib_job_leave(&all->jobs, s);
	mpib_debug("client %u (%s, pid %u) has left", s->id, s->name, s->pid);
	proxy_client_free(s);
	proxy_clients_check(all);
}

void proxy_client_advance(struct proxy_client *s)
{
	/* A region in ADDING can be fenced only once its shard knows it. */
	if (s->state != PROXY_CLIENT_REGIONS || s->adding > 0)
		return;
	proxy_client_drop_regions(s);
	if (s->region_count > 0)
		return;
	s->state = PROXY_CLIENT_CLOSING;
	engine_client_close(s->peer_client.engine_client, &s->moved,
			    client_on_closed, s);
}
