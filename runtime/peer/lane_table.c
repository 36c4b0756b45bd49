/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lanes lead to which peers. When both ends open the same lane at once,
 * the lower node id's opening counts; the other end gives its own up.
 */
#include <arpa/inet.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "peer/internal.h"

static bool same_key(const struct mpib_blane *l, const struct mpib_lane_key *k,
		     bool ours)
{
	/* Shards swap places when the other end opened it. */
	uint16_t mine = ours ? k->from_shard : k->to_shard;
	uint16_t theirs = ours ? k->to_shard : k->from_shard;
	uint16_t l_mine = l->ours ? l->key.from_shard : l->key.to_shard;
	uint16_t l_theirs = l->ours ? l->key.to_shard : l->key.from_shard;

	return l->key.uid == k->uid && l_mine == mine && l_theirs == theirs &&
	       l->key.serial == 0 && k->serial == 0;
}

static struct mpib_blane *find_shared(struct mpib_peer *p,
				      const struct mpib_lane_key *k, bool ours)
{
	struct mpib_blane *l;

	TAILQ_FOREACH(l, &p->lanes, entry)
	{
		if (l->state <= MPIB_BLANE_UP && same_key(l, k, ours))
			return l;
	}
	return NULL;
}

struct mpib_blane *mpib_blane_find(struct mpib_peer *p, uint32_t id)
{
	struct mpib_blane *l;

	HASH_FIND(hh, p->broker->lanes, &id, sizeof(id), l);
	return l && l->peer == p ? l : NULL;
}

static struct mpib_blane *new_lane(struct mpib_peer *p,
				   const struct mpib_lane_key *key, bool ours)
{
	struct mpib_blane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->peer = p;
	l->key = *key;
	l->ours = ours;
	l->id = p->broker->next_id++;
	TAILQ_INIT(&l->waiting);
	TAILQ_INSERT_TAIL(&p->lanes, l, entry);
	HASH_ADD(hh, p->broker->lanes, id, sizeof(l->id), l);
	return l;
}

static void free_entry(struct mpib_blane *l)
{
	TAILQ_REMOVE(&l->peer->lanes, l, entry);
	HASH_DELETE(hh, l->peer->broker->lanes, l);
	free(l);
}

static void on_destroyed(void *arg, int status)
{
	(void)status;
	free_entry(arg);
}

/* Once dead and empty. */
static void destroy(struct mpib_blane *l)
{
	struct mpib_lane *lane = l->lane;

	if (!lane)
		return;
	l->lane = NULL;
	mpib_lane_destroy(lane, on_destroyed, l);
}

static void step_conns(struct mpib_blane *l)
{
	struct mpib_bconn *c, *next;

	HASH_ITER(hh, l->peer->broker->conns, c, next)
	{
		if (c->lane != l)
			continue;
		c->quiet = true;
		mpib_bconn_step(c);
	}
}

static void on_killed(void *arg, int status)
{
	struct mpib_blane *l = arg;

	(void)status;
	l->state = MPIB_BLANE_DEAD;
	l->conns++; /* so that the last connection does not free it here */
	step_conns(l);
	mpib_blane_put(l);
}

static void fail_waiting(struct mpib_blane *l, const char *why)
{
	struct mpib_bconn *c;

	while ((c = TAILQ_FIRST(&l->waiting)))
		mpib_bconn_fail(c, -ECONNRESET, "peer %s: %s", l->peer->label,
				why);
}

void mpib_blane_kill(struct mpib_blane *l, const char *why)
{
	struct mpib_bconn *c, *next;
	bool asked = l->state == MPIB_BLANE_ASKED;

	if (l->state >= MPIB_BLANE_DYING)
		return;
	l->state = asked ? MPIB_BLANE_DEAD : MPIB_BLANE_DYING;
	l->conns++;
	fail_waiting(l, why);
	HASH_ITER(hh, l->peer->broker->conns, c, next)
	{
		if (c->lane == l && c->state != MPIB_BCONN_OVER)
			mpib_bconn_fail(c, -ECONNRESET, "peer %s: %s",
					l->peer->label, why);
	}
	if (!asked)
		mpib_lane_kill(l->lane, on_killed, l);
	mpib_blane_put(l);
}

void mpib_blane_put(struct mpib_blane *l)
{
	if (--l->conns > 0)
		return;
	if (l->state == MPIB_BLANE_DEAD) {
		destroy(l);
		return;
	}
	/* A private lane lives as long as its connection. */
	if (l->key.serial && l->state == MPIB_BLANE_UP)
		mpib_blane_kill(l, "its connection was closed");
}

void mpib_blanes_lost(struct mpib_peer *p, const char *why)
{
	struct mpib_blane *l, *next;

	for (l = TAILQ_FIRST(&p->lanes); l; l = next) {
		next = TAILQ_NEXT(l, entry);
		mpib_blane_kill(l, why);
	}
}

void mpib_blanes_free(struct mpib_broker *b)
{
	struct mpib_blane *l, *next;

	HASH_ITER(hh, b->lanes, l, next)
	{
		HASH_DELETE(hh, b->lanes, l);
		free(l);
	}
}

static int ask(struct mpib_blane *l, struct mpib_tenant *tenant)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_LANE_OPEN,
		.from = l->id,
		.key = l->key,
	};
	uint8_t version = l->key.serial ? MPIB_IMM_V1 : MPIB_IMM_V2;
	int rc = mpib_lane_create(tenant, version, NULL, &l->lane);

	if (rc < 0) {
		mpib_err("peer %s: cannot make a lane: %s", l->peer->label,
			 strerror(-rc));
		return rc;
	}
	mpib_lane_set_label(l->lane, l->peer->label);
	mpib_lane_local(l->lane, &m.lane_info);
	mpib_peer_tell(l->peer, &m);
	return 0;
}

struct mpib_blane *mpib_blane_get(struct mpib_bconn *c)
{
	struct mpib_lane_key key = {
		.uid = c->owner->uid,
		.from_shard = (uint16_t)c->owner->shard,
		.to_shard = c->handle.shard,
		.serial = c->broker->private_lanes ? ++c->broker->serial : 0,
	};
	struct mpib_blane *l =
		key.serial ? NULL : find_shared(c->peer, &key, true);

	if (!l) {
		l = new_lane(c->peer, &key, true);
		if (!l)
			return NULL;
		if (ask(l, c->owner->tenant) < 0) {
			free_entry(l);
			return NULL;
		}
	}
	l->conns++;
	return l;
}

static void reject(struct mpib_peer *p, uint32_t to, int error, const char *why)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_LANE_REJECT,
		.to = to,
		.error = error,
	};

	snprintf(m.why, sizeof(m.why), "%s", why);
	mpib_peer_tell(p, &m);
}

static void came_up(struct mpib_blane *l)
{
	struct mpib_bconn *c;

	l->state = MPIB_BLANE_UP;
	while ((c = TAILQ_FIRST(&l->waiting))) {
		TAILQ_REMOVE(&l->waiting, c, entry);
		mpib_bconn_laned(c);
	}
}

static bool we_are_lower(const struct mpib_peer *p)
{
	const struct mpib_node_id *a = &p->broker->self, *b = &p->node;

	if (a->addr != b->addr)
		return ntohl(a->addr) < ntohl(b->addr);
	return a->port < b->port;
}

/* Both ends opened it; ours is given up for theirs, connections move over. */
static void yield_to(struct mpib_blane *mine, struct mpib_blane *theirs)
{
	struct mpib_bconn *c;

	while ((c = TAILQ_FIRST(&mine->waiting))) {
		TAILQ_REMOVE(&mine->waiting, c, entry);
		c->lane = theirs;
		mine->conns--;
		theirs->conns++;
		TAILQ_INSERT_TAIL(&theirs->waiting, c, entry);
	}
	mine->state = MPIB_BLANE_DEAD;
	mine->conns++;
	mpib_blane_put(mine);
}

static int open_theirs(struct mpib_blane *l, const struct mpib_peer_msg *m,
		       char *why, size_t why_len)
{
	struct mpib_peer_msg reply = {
		.type = MPIB_PEER_LANE_ACCEPT,
		.to = m->from,
		.from = l->id,
	};
	struct mpib_tenant *tenant;
	int rc;

	rc = mpib_tenant_get(l->peer->broker->engine, m->key.to_shard,
			     m->key.uid, &tenant);
	if (rc < 0) {
		snprintf(why, why_len, "no protection domain: %s",
			 strerror(-rc));
		return rc;
	}
	rc = mpib_lane_create(tenant, 0, &m->lane_info, &l->lane);
	mpib_tenant_put(tenant);
	if (rc < 0) {
		snprintf(why, why_len,
			 rc == -ENOTSUP
				 ? "the nodes have different rails (give both "
				   "the same number)"
				 : "its proxy cannot make the QPs: %s",
			 strerror(-rc));
		return rc;
	}
	mpib_lane_set_label(l->lane, l->peer->label);
	rc = mpib_lane_connect(l->lane, &m->lane_info, why, why_len);
	if (rc < 0)
		return rc;
	l->their_id = m->from;
	mpib_lane_local(l->lane, &reply.lane_info);
	mpib_peer_tell(l->peer, &reply);
	return 0;
}

static void on_open(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_blane *mine, *l;
	char why[160] = "out of memory";

	if (m->key.to_shard >= mpib_engine_shards(p->broker->engine)) {
		reject(p, m->from, -EINVAL, "there is no such shard");
		return;
	}
	mine = m->key.serial ? NULL : find_shared(p, &m->key, false);
	/* The other end will drop its own on receiving ours. */
	if (mine && mine->state == MPIB_BLANE_ASKED && we_are_lower(p))
		return;
	l = new_lane(p, &m->key, false);
	if (!l || open_theirs(l, m, why, sizeof(why)) < 0) {
		reject(p, m->from, -EIO, why);
		if (l && l->lane) {
			l->state = MPIB_BLANE_DEAD;
			destroy(l);
		} else if (l) {
			free_entry(l);
		}
		return;
	}
	if (mine && mine->state == MPIB_BLANE_ASKED)
		yield_to(mine, l);
	came_up(l);
}

static void on_accept(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_blane *l = mpib_blane_find(p, m->to);
	char why[200];

	if (!l || l->state != MPIB_BLANE_ASKED)
		return; /* given up meanwhile */
	l->their_id = m->from;
	if (mpib_lane_connect(l->lane, &m->lane_info, why, sizeof(why)) < 0) {
		mpib_warn("peer %s: %s", p->label, why);
		mpib_blane_kill(l, why);
		return;
	}
	came_up(l);
}

void mpib_blane_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_blane *l;

	switch (m->type) {
	case MPIB_PEER_LANE_OPEN:
		on_open(p, m);
		break;
	case MPIB_PEER_LANE_ACCEPT:
		on_accept(p, m);
		break;
	default:
		l = mpib_blane_find(p, m->to);
		if (l && l->state == MPIB_BLANE_ASKED)
			mpib_blane_kill(l, m->why);
		break;
	}
}
