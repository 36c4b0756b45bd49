/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client goes: its connections first, then its regions, then its segments.
 */
#include "session/session.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/event.h"

struct mpib_session *mpib_session_new(struct mpib_sessions *all)
{
	struct mpib_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = all;
	s->sock = s->pidfd = -1;
	LIST_INIT(&s->regions);
	TAILQ_INIT(&s->filling);
	return s;
}

void mpib_session_free(void *arg)
{
	struct mpib_session *s = arg;
	struct mpib_sessions *all = s->all;

	mpib_session_free_regions(s);
	all->ledger.mapped -= s->submit.size + s->reply.size;
	mpib_memseg_fini(&s->submit);
	mpib_memseg_fini(&s->reply);
	TAILQ_REMOVE(&all->list, s, link);
	mpib_quota_end(s);
	all->ledger.sessions--;
	free(s->by_handle);
	free(s);
}

static void hang_up(struct mpib_session *s)
{
	mpib_timer_disarm(s->all->loop, &s->hello_timer);
	mpib_loop_del(s->all->loop, &s->sock_watch);
	close(s->sock);
	s->sock = -1;
	if (s->pidfd >= 0) {
		mpib_loop_del(s->all->loop, &s->pid_watch);
		close(s->pidfd);
		s->pidfd = -1;
	}
}

void mpib_session_drop(struct mpib_session *s, const char *why)
{
	if (s->state > MPIB_SESSION_LIVE)
		return;
	hang_up(s);
	if (s->state == MPIB_SESSION_NEW) {
		mpib_debug("a connection of pid %u ended before it attached: "
			   "%s",
			   s->pid, why);
		s->state = MPIB_SESSION_CLOSING;
		/* Later: our callers still look at it. */
		mpib_timer_arm(s->all->loop, &s->hello_timer, 0,
			       mpib_session_free, s);
		return;
	}
	mpib_event(MPIB_LOG_INFO, "client_leaves",
		   &(struct mpib_event_about){ .client = s->id },
		   "client %u (%s, pid %u) leaves: %s", s->id, s->name, s->pid,
		   why);
	s->all->ledger.leaving++;
	s->state = MPIB_SESSION_CONNS;
	mpib_session_stop_filling(s);
	mpib_session_drop_conns(s);
}

static void on_closed(void *arg, int status)
{
	struct mpib_session *s = arg;
	struct mpib_sessions *all = s->all;

	(void)status;
	mpib_tenant_put(s->owner.tenant);
	all->on_shard[s->owner.shard]--;
	all->ledger.attached--;
	all->ledger.leaving--;
	mpib_shares_apply_user(all, s->uid);
	mpib_debug("client %u (%s, pid %u) has left", s->id, s->name, s->pid);
	mpib_session_free(s);
}

void mpib_session_advance(struct mpib_session *s)
{
	/* A region being added must be known to be fenced. */
	if (s->state != MPIB_SESSION_REGIONS || s->adding > 0)
		return;
	mpib_session_drop_regions(s);
	if (s->region_count > 0)
		return;
	s->state = MPIB_SESSION_CLOSING;
	mpib_attachment_close(s->owner.attachment, on_closed, s);
}
