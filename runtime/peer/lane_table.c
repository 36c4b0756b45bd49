/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of lanes to peers, and how lanes end. Control thread. The first end
 * that kills a lane sends LANE_CLOSE and from then on nothing else about it,
 * since the other end then kills its side, too. Each end releases memory when
 * its own kill is done.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "peer/internal.h"

unsigned peer_lane_shard(const struct peer_lane *l)
{
	return l->ours ? l->key.from_shard : l->key.to_shard;
}

static bool same_key(const struct peer_lane *l, const struct mpib_lane_key *k,
		     bool ours)
{
	/* from and to are swapped if the other end opened the lane. */
	uint16_t mine = ours ? k->from_shard : k->to_shard;
	uint16_t theirs = ours ? k->to_shard : k->from_shard;
	uint16_t l_theirs = l->ours ? l->key.to_shard : l->key.from_shard;

	return l->key.uid == k->uid &&
	       l->key.traffic_class == k->traffic_class &&
	       peer_lane_shard(l) == mine && l_theirs == theirs &&
	       l->key.serial == 0 && k->serial == 0;
}

struct peer_lane *peer_lane_find_shared(struct mpib_peer *p,
					const struct mpib_lane_key *key,
					bool ours)
{
	struct peer_lane *l;

	TAILQ_FOREACH(l, &p->lanes, entry)
	{
		if (l->state <= PEER_LANE_UP && same_key(l, key, ours))
			return l;
	}
	return NULL;
}

struct peer_lane *peer_lane_find(struct mpib_peer *p, uint32_t id)
{
	struct peer_lane *l;

	HASH_FIND(hh, p->broker->lanes, &id, sizeof(id), l);
	return l && l->peer == p ? l : NULL;
}

struct peer_lane *peer_lane_of_opener(struct mpib_peer *p, uint32_t from)
{
	struct peer_lane *l;

	TAILQ_FOREACH(l, &p->lanes, entry)
	{
		if (!l->ours && l->their_id == from &&
		    l->state < PEER_LANE_DYING)
			return l;
	}
	return NULL;
}

struct peer_lane *peer_lane_new(struct mpib_peer *p,
				const struct mpib_lane_key *key, bool ours,
				uint32_t id)
{
	struct peer_lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->peer = p;
	l->key = *key;
	l->ours = ours;
	l->id = id;
	l->listed = p->state == MPIB_PEER_UP;
	TAILQ_INIT(&l->conns);
	TAILQ_INIT(&l->waiting);
	LIST_INIT(&l->offers);
	TAILQ_INSERT_TAIL(&p->lanes, l, entry);
	p->lane_count++;
	HASH_ADD(hh, p->broker->lanes, id, sizeof(l->id), l);
	return l;
}

/* Count the lanes that the user, or peers on its behalf, opened: to one peer,
 * and to all. */
static void count_lanes(const struct mpib_peer *p, uid_t uid, bool ours,
			uint64_t *here, uint64_t *all)
{
	const struct peer_lane *l;

	*here = *all = 0;
	for (l = p->broker->lanes; l; l = l->hh.next) {
		bool counts = l->key.uid == uid && l->ours == ours;

		*all += counts;
		*here += counts && l->peer == p;
	}
}

int peer_lane_quota(const struct mpib_peer *p, uid_t uid, bool ours, char *why,
		    size_t why_len)
{
	uint64_t most = p->broker->lanes_of_one, here, all;
	uint64_t of_peer = MPIB_LANES_OF_ONE_MAX;

	count_lanes(p, uid, ours, &here, &all);
	/* Of the lanes that peers open, one peer may have a quarter. */
	if (!ours && most && (most + 3) / 4 < of_peer)
		of_peer = (most + 3) / 4;
	if (most && all >= most)
		snprintf(why, why_len,
			 "uid %u has %" PRIu64 " lanes%s and quota.lanes = "
			 "%" PRIu64 " (close some, or raise it)",
			 (unsigned)uid, all, ours ? "" : " of peers", most);
	else if (here >= of_peer)
		snprintf(why, why_len,
			 "uid %u has %" PRIu64 " lanes %s, a quarter of what "
			 "is possible (close some)",
			 (unsigned)uid, here,
			 ours ? "to one peer" : "that this peer opened");
	else
		return 0;
	return -EDQUOT;
}

uint64_t mpib_broker_lanes(const struct mpib_broker *broker, uid_t uid)
{
	const struct peer_lane *l;
	uint64_t n = 0;

	for (l = broker->lanes; l; l = l->hh.next)
		n += l->ours && l->key.uid == uid;
	return n;
}

static void on_idle_end(void *arg)
{
	struct peer_lane *l = arg;

	if (l->state == PEER_LANE_UP && l->uses == 0)
		peer_lane_kill(l, -ECANCELED, "no connection used it");
}

void peer_lane_watch_idle(struct peer_lane *l)
{
	uint64_t ns = l->ours ? MPIB_LANE_IDLE_NS : 2 * MPIB_LANE_IDLE_NS;

	if (l->state == PEER_LANE_UP && l->uses == 0)
		mpib_timer_arm(l->peer->broker->loop, &l->idle, ns, on_idle_end,
			       l);
}

void peer_lane_up(struct peer_lane *l)
{
	l->state = PEER_LANE_UP;
	HASH_ADD(hh_lane, l->peer->broker->by_lane, lane, sizeof(l->lane), l);
}

static void free_entry(struct peer_lane *l)
{
	mpib_timer_disarm(l->peer->broker->loop, &l->idle);
	TAILQ_REMOVE(&l->peer->lanes, l, entry);
	mpib_sum_less(&l->peer->lane_count);
	HASH_DELETE(hh, l->peer->broker->lanes, l);
	free(l);
}

static void lane_table_on_destroyed(void *arg, int status)
{
	(void)status;
	free_entry(arg);
}

/* Called once the lane is DEAD and has no uses. */
static void lane_table_destroy(struct peer_lane *l)
{
	struct mpib_lane *lane = l->lane;

	l->lane = NULL;
	if (lane)
		mpib_lane_destroy(lane, lane_table_on_destroyed, l);
	else
		free_entry(l);
}

void peer_lane_answer(const struct peer_lane *l, const struct mpib_peer_msg *m)
{
	if (!l->muted)
		mpib_peer_tell(l->peer, m);
}

void peer_lane_tell(const struct peer_lane *l, const struct mpib_peer_msg *m)
{
	if (l->listed)
		peer_lane_answer(l, m);
}

static void lane_table_tell_end(struct peer_lane *l, int error, const char *why)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_LANE_CLOSE,
		.to = l->their_id,
		.from = l->id,
		.error = error,
	};

	mpib_peer_text(m.why, sizeof(m.why), why);
	peer_lane_answer(l, &m);
	l->muted = true;
}

static void on_killed(void *arg, int status)
{
	struct peer_lane *l = arg;
	struct peer_conn *c, *next;

	(void)status;
	l->state = PEER_LANE_DEAD;
	l->uses++; /* keeps the lane until its last connection here is gone */
	for (c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, lane_entry);
		c->quiet = true;
		peer_conn_step(c);
	}
	peer_lane_put(l);
}

void peer_lane_kill(struct peer_lane *l, int error, const char *why)
{
	bool connected = l->state == PEER_LANE_UP;
	struct peer_conn *c, *next;
	char text[sizeof(((struct mpib_peer_msg *)0)->why)];

	if (l->state >= PEER_LANE_DYING)
		return;
	/* why may lie in an object that is freed below. */
	mpib_peer_text(text, sizeof(text), why);
	l->state = connected ? PEER_LANE_DYING : PEER_LANE_DEAD;
	if (connected)
		HASH_DELETE(hh_lane, l->peer->broker->by_lane, l);
	l->uses++;
	lane_table_tell_end(l, error, text);
	mpib_accept_lane_gone(l);
	for (c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, lane_entry);
		if (error == MPIB_BROKEN_LOST)
			peer_conn_lose(c, text);
		else
			peer_conn_fail(c, error, "peer %s: %s", l->peer->label,
				       text);
	}
	if (connected)
		mpib_lane_kill(l->lane, on_killed, l);
	peer_lane_put(l);
}

void peer_lane_join(struct peer_lane *l, struct peer_conn *c)
{
	c->lane = l;
	l->uses++;
	TAILQ_INSERT_TAIL(&l->conns, c, lane_entry);
}

void peer_lane_leave(struct peer_conn *c)
{
	struct peer_lane *l = c->lane;

	if (!l)
		return;
	TAILQ_REMOVE(&l->conns, c, lane_entry);
	c->lane = NULL;
	peer_lane_put(l);
}

void peer_lane_put(struct peer_lane *l)
{
	if (mpib_sum_less(&l->uses) > 0)
		return;
	if (l->state == PEER_LANE_DEAD)
		lane_table_destroy(l);
	else if (l->key.serial) /* private: closed with its connection */
		peer_lane_kill(l, -ECANCELED, "its connection was closed");
	else
		peer_lane_watch_idle(l);
}

void peer_lane_lose(struct peer_lane *l, const char *why)
{
	peer_lane_kill(l, peer_lost_error(l->peer->broker), why);
}

void peer_lanes_end(struct mpib_peer *p, int error, const char *why)
{
	struct peer_lane *l, *next;

	for (l = TAILQ_FIRST(&p->lanes); l; l = next) {
		next = TAILQ_NEXT(l, entry);
		peer_lane_kill(l, error, why);
	}
}

void peer_lanes_free(struct mpib_broker *b)
{
	struct peer_lane *l, *next;

	HASH_CLEAR(hh_lane, b->by_lane);
	HASH_ITER(hh, b->lanes, l, next)
	{
		mpib_timer_disarm(b->loop, &l->idle);
		HASH_DELETE(hh, b->lanes, l);
		free(l);
	}
}

/* A peer's messages about existing lanes; lane_setup.c handles those that
 * create one. Each may come twice, or about a lane that has ended here. Control
 * thread. */

void peer_lane_tell_gone(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_peer_msg gone = {
		.type = MPIB_PEER_LANE_CLOSE,
		.to = m->from,
		.from = m->to,
		.error = -ECANCELED,
		.why = "the other end no longer has it",
	};

	mpib_peer_tell(p, &gone);
}

static bool on_kept(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct peer_lane *l = peer_lane_find(p, m->to);

	if (l && l->state == PEER_LANE_ASKED)
		return l->ours; /* its LANE_OPEN is answered again */
	if (l && l->state == PEER_LANE_UP)
		return l->their_id == m->from;
	peer_lane_tell_gone(p, m);
	return true;
}

/* The peer refused one connection for now. The others that waited for the same
 * lane pause, then the first of them requests a lane. So each pause creates one
 * lane, however many connections wait. */
#define OTHERS_NS (10 * MPIB_MSEC)

/* The peer refused the connection or the listener for which the lane was
 * requested. The other connections leave the lane, to request their own. */
static void ask_by_others(struct peer_lane *l, const struct mpib_peer_msg *m)
{
	struct peer_conn_list others = TAILQ_HEAD_INITIALIZER(others);
	struct peer_conn *c, *next;

	l->uses++;
	for (c = TAILQ_FIRST(&l->waiting); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->name.key == l->asker.key)
			continue;
		TAILQ_REMOVE(&l->waiting, c, entry);
		TAILQ_INSERT_TAIL(&others, c, entry);
		c->state = PEER_CONN_NEW;
		peer_lane_leave(c);
	}
	peer_lane_kill(l, m->error, m->why);
	peer_lane_put(l);
	while ((c = TAILQ_FIRST(&others))) {
		TAILQ_REMOVE(&others, c, entry);
		if (m->error == -EAGAIN)
			peer_conn_begin_later(c, OTHERS_NS);
		else
			peer_conn_linked(c);
	}
}

static bool on_reject(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);

	if (!l || l->state == PEER_LANE_DEAD)
		return true;
	if (!l->ours || l->state != PEER_LANE_ASKED)
		return false;
	l->muted = true; /* the peer kept nothing of the lane */
	if (m->error == -ECONNREFUSED || m->error == -EACCES ||
	    m->error == -EAGAIN)
		ask_by_others(l, m);
	else
		peer_lane_kill(l, m->error, m->why);
	return true;
}

static bool on_close(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	/* to is 0 if the opener had not read the LANE_ACCEPT. */
	struct peer_lane *l = m->to ? peer_lane_find(p, m->to)
				    : peer_lane_of_opener(p, m->from);

	/* The peer sends a LANE_OPEN after this for a lane that is not up
	 * yet. */
	if (!l || l->state != PEER_LANE_UP)
		return true;
	if (l->their_id != m->from)
		return false;
	l->muted = true;
	if (m->error == -ECANCELED)
		peer_lane_renew(l);
	if (m->error == -ECANCELED || m->error == MPIB_BROKEN_LOST)
		peer_lane_lose(l, m->why);
	else
		peer_lane_kill(l, -ECONNRESET, m->why);
	return true;
}

static bool on_rail(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);

	/* In any other state the peer is told, or sends everything again with
	 * its LANE_ACCEPT. */
	return !l || l->state != PEER_LANE_UP ||
	       mpib_lane_receive(l->lane, &m->rail);
}

bool peer_lane_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	switch (m->type) {
	case MPIB_PEER_LANE_OPEN:
		return peer_lane_on_open(p, m);
	case MPIB_PEER_LANE_ACCEPT:
		return peer_lane_on_accept(p, m);
	case MPIB_PEER_LANE_REJECT:
		return on_reject(p, m);
	case MPIB_PEER_LANE_KEPT:
		return on_kept(p, m);
	case MPIB_PEER_LANE_RAIL:
		return on_rail(p, m);
	default:
		return on_close(p, m);
	}
}
