/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shard's progress thread. While there is traffic it polls and yields as
 * pace.h describes. Without work it sets its sleeping flag in the status
 * segment and makes one more turn. Then it sleeps in epoll_wait() until a
 * client's doorbell, a rail's CQ event or the mailbox wakes it.
 */
#include "engine/shard.h"

#include <ck_pr.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "engine/conn/conn.h"
#include "engine/rail/rail.h"
#include "engine/recovery/stop.h"

/* Maximum sleep. It limits the delay if a wake-up gets lost, which should not
 * happen. */
#define SLEEP_MS 100

struct mpib_call *mpib_call_new(void *what, mpib_done_fn *done, void *arg)
{
	struct mpib_call *call = mpib_xcalloc(sizeof(*call));

	call->what = what;
	call->done = done;
	call->arg = arg;
	return call;
}

static void run_done(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);

	if (call->after)
		call->after(call);
	if (call->done)
		call->done(call->arg, call->status);
	free(call);
}

void mpib_call_done(struct mpib_shard *s, struct mpib_call *call, int status)
{
	call->status = status;
	mpib_mailbox_send(&s->engine->mailbox, &call->msg, run_done);
}

int mpib_shard_turn(struct mpib_shard *s)
{
	uint64_t now = mpib_now_ns(), gone = now - s->now;
	int work = 0;

	if (s->busy)
		s->n.busy_ns += gone;
	else
		s->n.idle_ns += gone;
	s->now = now;
	if (mpib_bell_rang(&s->mailbox.bell))
		work = mpib_mailbox_run(&s->mailbox);
	/* Poll the CQs last. Polling makes the software HCA send, so WRs posted
	 * earlier in this turn leave in the same turn. */
	work += mpib_submit_poll(s);
	if (!TAILQ_EMPTY(&s->flushing))
		work += mpib_flush_turn(s);
	s->drr_wake_ns = UINT64_MAX;
	if (!TAILQ_EMPTY(&s->cts) || !TAILQ_EMPTY(&s->drrs.active))
		work += mpib_sched_turn(s);
	if (!TAILQ_EMPTY(&s->ack_pending))
		work += mpib_ack_write_turn(s);
	if (mpib_qp_queued(s))
		mpib_qp_flush(s);
	work += mpib_cq_turn(s);
	if (s->vcq)
		work += mpib_cq_whole_turn(s);
	/* Read end-to-end acks after all completions, because a completion
	 * alone does not end a send op of these senders. */
	if (!TAILQ_EMPTY(&s->waiting))
		work += mpib_ack_read_turn(s);
	if (s->srq_short)
		work += mpib_srq_turn(s);
	if (++s->watch_turns >= MPIB_WATCH_TURNS)
		mpib_watch(s);
	if (mpib_qp_queued(s))
		/* Post probes, and WRs that were queued while a fault was
		 * handled. */
		mpib_qp_flush(s);

	s->n.turns++;
	s->busy = work > 0;
	s->n.busy_turns += s->busy;
	return work;
}

static void shard_arm(struct mpib_shard *s)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		if (s->rail[r].ctx)
			ibv_req_notify_cq(s->rail[r].cq, 0);
	}
}

/* Sources of wake-ups, in data.u32 of an epoll event. */
enum {
	WAKE_DOORBELL, /* the doorbell of any client */
	WAKE_MAILBOX,
	WAKE_RAIL, /* WAKE_RAIL + rail */
	WAKES = WAKE_RAIL + MPIB_RAILS,
};

/* Maximum of events of one epoll_wait(). Events beyond this number end the next
 * sleep. */
#define EVENTS 32

/* After a sleep, read the CQ's event if one came (`spoke`). Otherwise disarm
 * the CQ if the device can do this, so that it raises no event during
 * polling. */
static void shard_disarm(struct mpib_shard *s, unsigned r, bool spoke)
{
	struct mpib_rail *rail = &s->rail[r];
	struct ibv_cq *cq;
	void *ctx;

	if (rail->ctx && rail->verbs->disarm_cq(rail->cq, spoke) &&
	    rail->verbs->get_cq_event(rail->channel, &cq, &ctx) == 0)
		rail->verbs->ack_cq_events(cq, 1);
}

static int sleep_most_ms(const struct mpib_shard *s)
{
	return s->watching || !TAILQ_EMPTY(&s->looks) ? MPIB_WATCH_MS
						      : SLEEP_MS;
}

/*
 * Sleep until there is work. Set the sleeping flag and arm the CQs before the
 * last turn, so that no work is missed. If a client, the mailbox or a CQ adds
 * work after the last turn, epoll_wait() returns. A client that sees the
 * sleeping flag rings the doorbell: mpib_summary_tell() in the client pairs
 * with mpib_shard_sleeps() and the mpib_summary_any() of the last turn.
 */
static void sleep_now(struct mpib_shard *s)
{
	struct epoll_event ev[EVENTS];
	bool woke[WAKES] = { false };
	int n = 0;

	mpib_shard_sleeps(s->status);
	shard_arm(s);
	s->settling = true;
	s->watch_turns = MPIB_WATCH_TURNS;
	if (mpib_shard_turn(s) == 0 &&
	    !atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		s->n.sleeps++;
		n = epoll_wait(s->epfd, ev, EVENTS,
			       mpib_sched_sleep_ms(s, sleep_most_ms(s)));
	}
	s->settling = false;
	mpib_shard_wakes(s->status);
	for (int i = 0; i < n; i++)
		woke[ev[i].data.u32] = true;
	for (unsigned r = 0; r < s->engine->cfg.rails; r++)
		shard_disarm(s, r, woke[WAKE_RAIL + r]);
}

static void shard_yield(struct mpib_shard *s, uint64_t now)
{
	uint64_t after;

	sched_yield();
	after = mpib_now_ns();
	mpib_pace_yielded(&s->pace, after, after - now);
}

static void give_way(struct mpib_shard *s)
{
	uint64_t now = mpib_now_ns();

	if (mpib_pace_gives_way(&s->pace, now))
		shard_yield(s, now);
}

/* Main function of a shard's thread. */
static void *shard_thread(void *arg)
{
	struct mpib_shard *s = arg;

	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		uint64_t now;

		if (mpib_shard_turn(s) > 0) {
			mpib_pace_busy(&s->pace);
			if (mpib_pace_is_shared(&s->pace, s->now))
				give_way(s);
			continue;
		}
		now = mpib_now_ns();
		switch (mpib_pace_idle(&s->pace, now)) {
		case MPIB_WAIT_SPIN:
			ck_pr_stall();
			break;
		case MPIB_WAIT_YIELD:
			shard_yield(s, now);
			break;
		case MPIB_WAIT_SLEEP:
			if ((s->unseen && s->drrs.children > 0) ||
			    mpib_looks_keep_awake(s))
				break;
			sleep_now(s);
			now = mpib_now_ns() - now;
			s->n.slept_ns += now;
			mpib_pace_slept(&s->pace, now);
			break;
		}
	}
	return NULL;
}

static int shard_watch(struct mpib_shard *s, int fd, unsigned wake,
		       uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u32 = wake };

	return epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Watch the doorbell edge-triggered: each write is one event, and the shard
 * never reads the eventfd. So a client that empties, fills or blocks its
 * doorbell harms no other client, and an unused doorbell costs nothing. */
int mpib_shard_watch_bell(struct mpib_shard *s, int bell)
{
	return shard_watch(s, bell, WAKE_DOORBELL, EPOLLIN | EPOLLET);
}

/* Remove the watch explicitly. While the client keeps its doorbell open,
 * close() in this process does not end the watch. */
void mpib_shard_unwatch_bell(struct mpib_shard *s, int bell)
{
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, bell, NULL);
}

static int watch_all(struct mpib_shard *s)
{
	int rc = shard_watch(s, s->mailbox.bell.fd, WAKE_MAILBOX, EPOLLIN);

	for (unsigned r = 0; rc == 0 && r < s->engine->cfg.rails; r++) {
		if (s->rail[r].ctx)
			rc = shard_watch(s, s->rail[r].channel->fd,
					 WAKE_RAIL + r, EPOLLIN);
	}
	return rc;
}

static void shard_init_lists(struct mpib_shard *s)
{
	TAILQ_INIT(&s->clients);
	TAILQ_INIT(&s->tenants);
	TAILQ_INIT(&s->lanes);
	mpib_drr_init(&s->drrs, NULL);
	TAILQ_INIT(&s->submitting);
	TAILQ_INIT(&s->cts);
	TAILQ_INIT(&s->flushing);
	TAILQ_INIT(&s->waiting);
	TAILQ_INIT(&s->ack_pending);
	SLIST_INIT(&s->dirty);
	LIST_INIT(&s->watched);
	TAILQ_INIT(&s->looks);
	TAILQ_INIT(&s->timed);
}

/* Create the virtual CQ and the WR pool of fragments, s->frags. Fragments have
 * their own pool, because a fragment holds its WR until the peer acknowledges
 * it. A peer that never acknowledges must not use up the WRs of other lanes. */
static int make_spread(struct mpib_shard *s)
{
	int rc;

	if (s->engine->cfg.spread == MPIB_SPREAD_SPLIT)
		return 0;
	rc = mpib_wr_pool_init(&s->frags);
	return rc < 0 ? rc : mpib_vcq_create(NULL, 0, &s->frags, &s->vcq);
}

static void shard_begin(struct mpib_shard *s, struct mpib_engine *e,
			unsigned index)
{
	s->engine = e;
	s->index = index;
	s->device = index / e->cfg.shards;
	s->status = &e->status->shard[index];
	s->quiet_most = mpib_cts_quiet_most(e->cfg.sq_depth);
}

int mpib_shard_init(struct mpib_shard *s, struct mpib_engine *e, unsigned index,
		    char *why, size_t why_len)
{
	int rc;

	*why = '\0';
	shard_begin(s, e, index);
	s->epfd = s->mailbox.bell.fd = -1;
	mpib_pace_init(&s->pace);
	shard_init_lists(s);
	s->now = mpib_now_ns();
	s->conn = calloc(ENGINE_CONNS_MAX, sizeof(*s->conn));
	rc = s->conn ? mpib_wr_pool_init(&s->wrs) : -ENOMEM;
	if (rc == 0)
		rc = make_spread(s);
	if (rc == 0)
		rc = mpib_mailbox_init(&s->mailbox);
	if (rc == 0) {
		s->epfd = epoll_create1(EPOLL_CLOEXEC);
		rc = s->epfd < 0 ? -errno : 0;
	}
	if (rc == 0)
		rc = mpib_rails_open(s, why, why_len);
	if (rc == 0)
		rc = watch_all(s);
	if (rc < 0) {
		mpib_shard_fini(s);
		if (!*why)
			snprintf(why, why_len, "shard %u: %s", index,
				 strerror(-rc));
		return rc;
	}
	s->pinned = e->cfg.cpus_near &&
		    e->cfg.cpus_near(mpib_shard_node(s), &s->cpus);
	return 0;
}

void mpib_shard_fini(struct mpib_shard *s)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++)
		mpib_rail_close(&s->rail[r]);
	if (s->epfd >= 0)
		close(s->epfd);
	if (s->mailbox.bell.fd >= 0)
		mpib_mailbox_fini(&s->mailbox);
	if (s->vcq)
		mpib_vcq_destroy(s->vcq);
	mpib_wr_pool_fini(&s->frags);
	mpib_wr_pool_fini(&s->wrs);
	free(s->conn);
}

/* Posting in a turn: first CTS, then send ops of the connections on all lanes,
 * in the order of their DRR classes (lane/drr.h). Shard thread. */

#define OPS_PER_TURN 64
/* Send ops per turn while tenants share the shard. A short turn yields the core
 * sooner to the ranks and shards that the next messages depend on. */
#define OPS_SHARED 8

/* The mpib_drr_run_fn of a connection. */
static int sched_run(struct mpib_drr_class *leaf, struct mpib_drr_run *run)
{
	struct engine_conn *conn = container_of(leaf, struct engine_conn, drr);

	mpib_works_for = conn->client->id;
	return mpib_sender_run(conn, run);
}

static int post_cts(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	/* Stop at the current tail of the list: a stopping connection without
	 * room for its last write queues itself again. */
	struct engine_conn *last = TAILQ_LAST(&s->cts, engine_conn_list);
	int posted = 0;

	for (f = TAILQ_FIRST(&s->cts); f; f = next) {
		next = f == last ? NULL : TAILQ_NEXT(f, cts_link);
		if (f->state == ENGINE_CONN_OPEN) {
			posted += mpib_receiver_post_cts(f);
			if (f->rx.cts_again != f->rx.next)
				/* the SQ is full, or no rail is open */
				continue;
		}
		f->on_cts = false;
		TAILQ_REMOVE(&s->cts, f, cts_link);
		engine_conn_check_stopped(f);
	}
	return posted;
}

int mpib_sched_turn(struct mpib_shard *s)
{
	int posted = TAILQ_EMPTY(&s->cts) ? 0 : post_cts(s);
	struct mpib_drr_turn t;

	if (TAILQ_EMPTY(&s->drrs.active))
		return posted;
	t = (struct mpib_drr_turn){
		.left = mpib_pace_is_shared(&s->pace, s->now) ? OPS_SHARED
							      : OPS_PER_TURN,
		.now_ns = s->now,
		.wake_ns = UINT64_MAX,
		.run = sched_run,
	};
	s->full = 0;
	s->contended = mpib_drr_contended(&s->drrs);
	mpib_drr_round(&s->drrs, &t);
	s->drr_wake_ns = t.wake_ns;
	s->unseen = t.unseen;
	/* Count a class in debt as work, so that the shard does not sleep. The
	 * class can post in a later round. */
	return posted + (int)t.posted + t.in_debt;
}

int mpib_sched_sleep_ms(const struct mpib_shard *s, int most)
{
	uint64_t ms = (s->drr_wake_ns - s->now) / 1000000 + 1;

	/* CTS and end-to-end acks are plain writes. A real HCA raises no event
	 * for them at this end. (The software HCA's socket wakes the shard.) So
	 * poll for CTS and acks every millisecond. */
	if (s->drrs.children > 0 || !TAILQ_EMPTY(&s->waiting))
		most = 1;
	return ms < (uint64_t)most ? (int)ms : most;
}

/* Start the shard's thread. If the process may no longer use the shard's CPUs,
 * the thread runs on any CPU. */
static int shard_spawn(struct mpib_shard *s)
{
	pthread_attr_t attr;
	int rc = EINVAL;

	if (s->pinned && pthread_attr_init(&attr) == 0) {
		rc = pthread_attr_setaffinity_np(&attr, sizeof(s->cpus),
						 &s->cpus);
		if (rc == 0)
			rc = pthread_create(&s->thread, &attr, shard_thread, s);
		pthread_attr_destroy(&attr);
		if (rc)
			mpib_warn("shard %u: not on the CPUs near its HCA: %s "
				  "(allow sched_setaffinity(2) of them, or set "
				  "proxy.pin = no)",
				  s->index, strerror(rc));
	}
	return rc ? pthread_create(&s->thread, NULL, shard_thread, s) : 0;
}

int mpib_shard_start(struct mpib_shard *s)
{
	char name[16];
	int rc;

	atomic_store_explicit(&s->stop, false, memory_order_relaxed);
	rc = shard_spawn(s);
	if (rc)
		return -rc;
	snprintf(name, sizeof(name), "mpib-shard-%u", s->index % 100);
	pthread_setname_np(s->thread, name);
	return 0;
}

void mpib_shard_join(struct mpib_shard *s)
{
	/* Relaxed: ringing the bell orders this store before the last turn of
	 * sleep_now(). */
	atomic_store_explicit(&s->stop, true, memory_order_relaxed);
	mpib_bell_ring(&s->mailbox.bell);
	pthread_join(s->thread, NULL);
}
