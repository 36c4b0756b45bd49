/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes to peers: their table, their set-up and their termination. Control
 * thread.
 *
 * If both ends open the same shared lane at the same time, one end's LANE_OPEN
 * wins. The node with the lower node id ignores the other LANE_OPEN, and the
 * other node gives up its own lane. The end that first kills a lane sends
 * LANE_CLOSE, and sends no later message about the lane. The other end then
 * kills its own side. Each end releases memory after it has killed its own
 * side.
 */
#include <errno.h>
#include <inttypes.h>
#include <mpib/wire.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/users.h"
#include "peer/internal.h"

unsigned peer_lane_shard(const struct peer_lane *l)
{
	return l->ours ? l->key.from_shard : l->key.to_shard;
}

static bool same_key(const struct peer_lane *l, const struct mpib_lane_key *k,
		     bool ours)
{
	/* `from_shard` and `to_shard` are swapped if the other end opened the
	 * lane. */
	uint16_t mine = ours ? k->from_shard : k->to_shard;
	uint16_t theirs = ours ? k->to_shard : k->from_shard;
	uint16_t l_theirs = l->ours ? l->key.to_shard : l->key.from_shard;

	return l->key.uid == k->uid &&
	       l->key.traffic_class == k->traffic_class &&
	       peer_lane_shard(l) == mine && l_theirs == theirs &&
	       l->key.serial == 0 && k->serial == 0;
}

static struct peer_lane *lane_find_shared(struct mpib_peer *p,
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

/* Find a lane that the peer opened. `from` is the peer's id for the lane. */
static struct peer_lane *lane_of_opener(struct mpib_peer *p, uint32_t from)
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

static struct peer_lane *lane_new(struct mpib_peer *p,
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
	HASH_ADD(hh, p->broker->lanes, id, sizeof(l->id), l);
	return l;
}

struct lane_counts {
	uint64_t peer; /* of all users, to the peer */
	uint64_t here, all; /* of the user, to the peer and to all peers */
};

/* Count the lanes. `here` and `all` are the lanes that the user opened if
 * `ours` is true, otherwise the lanes that peers opened for the user. */
static struct lane_counts count_lanes(const struct mpib_broker *b,
				      const struct mpib_peer *p, uid_t uid,
				      bool ours)
{
	struct lane_counts n = { 0 };

	for (const struct peer_lane *l = b->lanes; l; l = l->hh.next) {
		bool counts = l->key.uid == uid && l->ours == ours;

		n.peer += l->peer == p;
		n.here += counts && l->peer == p;
		n.all += counts;
	}
	return n;
}

/* Check whether the quotas allow another lane to the peer. If `ours` is true,
 * the user opens the lane. Otherwise the peer opens the lane for a listener of
 * the user. Return 0, or -errno with a reason in `why`. */
static int lane_quota(const struct mpib_peer *p, uid_t uid, bool ours,
		      char *why, size_t why_len)
{
	struct lane_counts n = count_lanes(p->broker, p, uid, ours);
	uint64_t most = p->broker->lanes_of_one;
	uint64_t of_peer = MPIB_LANES_OF_ONE_MAX;

	if (!ours && n.peer >= mpib_places_for(MPIB_LANES_MAX, uid)) {
		snprintf(why, why_len,
			 "it holds %" PRIu64 " lanes for this node already (no "
			 "more are possible)",
			 n.peer);
		return -ENOSPC;
	}
	/* The limit for one peer is a quarter of the limit for all peers
	 * together. */
	if (!ours && most && (most + 3) / 4 < of_peer)
		of_peer = (most + 3) / 4;
	if (most && n.all >= most)
		snprintf(why, why_len,
			 "uid %u has %" PRIu64 " lanes%s and quota.lanes = "
			 "%" PRIu64 " (close some, or raise it)",
			 (unsigned)uid, n.all, ours ? "" : " of peers", most);
	else if (n.here >= of_peer)
		snprintf(why, why_len,
			 "uid %u has %" PRIu64 " lanes %s, a quarter of what "
			 "is possible (close some)",
			 (unsigned)uid, n.here,
			 ours ? "to one peer" : "that this peer opened");
	else
		return 0;
	return -EDQUOT;
}

uint64_t mpib_broker_lanes(const struct mpib_broker *broker, uid_t uid)
{
	return count_lanes(broker, NULL, uid, true).all;
}

static void on_idle_end(void *arg)
{
	struct peer_lane *l = arg;

	if (l->state == PEER_LANE_UP && l->uses == 0)
		peer_lane_kill(l, -ECANCELED, "no connection used it");
}

/* Close the lane if it stays unused for MPIB_LANE_IDLE_NS. The accepting end
 * waits twice as long, so that a correct opener closes the lane first. */
static void lane_watch_idle(struct peer_lane *l)
{
	uint64_t ns = l->ours ? MPIB_LANE_IDLE_NS : 2 * MPIB_LANE_IDLE_NS;

	if (l->state == PEER_LANE_UP && l->uses == 0)
		mpib_timer_arm(l->peer->broker->loop, &l->idle, ns, on_idle_end,
			       l);
}

static void free_entry(struct peer_lane *l)
{
	mpib_timer_disarm(l->peer->broker->loop, &l->idle);
	TAILQ_REMOVE(&l->peer->lanes, l, entry);
	HASH_DELETE(hh, l->peer->broker->lanes, l);
	free(l);
}

static void lane_on_destroyed(void *arg, int status)
{
	(void)status;
	free_entry(arg);
}

/* Free a lane that is dead and unused. */
static void lane_let_go(struct peer_lane *l)
{
	struct mpib_lane *lane = l->lane;

	l->lane = NULL;
	if (lane)
		mpib_lane_destroy(lane, lane_on_destroyed, l);
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

static void lane_tell_end(struct peer_lane *l, int error, const char *why)
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
	/* Prevent peer_lane_put() from freeing the lane in this loop:
	 * peer_conn_step() can detach the last connection. */
	l->uses++;
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
	/* `why` can be part of an object that is freed below. */
	mpib_peer_text(text, sizeof(text), why);
	l->state = connected ? PEER_LANE_DYING : PEER_LANE_DEAD;
	if (connected)
		HASH_DELETE(hh_lane, l->peer->broker->by_lane, l);
	l->uses++;
	lane_tell_end(l, error, text);
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
		lane_let_go(l);
	else if (l->key.serial) /* a private lane ends with its connection */
		peer_lane_kill(l, -ECANCELED, "its connection was closed");
	else
		lane_watch_idle(l);
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
		l->peer_lost = true;
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

/* Answer a message about a lane that this node no longer has. */
static void lane_tell_gone(struct mpib_peer *p, const struct mpib_peer_msg *m)
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

/* Set-up of lanes. */

void peer_lane_ask(struct peer_lane *l)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_LANE_OPEN,
		.from = l->id,
		.nonce = l->nonce,
		.name = l->asker,
		.key = l->key,
	};

	mpib_lane_local(l->lane, &m.lane_info);
	peer_lane_tell(l, &m);
}

static int setup_ask(struct peer_lane *l, struct mpib_tenant *tenant,
		     const struct peer_conn *c)
{
	uint8_t version = l->key.serial ? MPIB_IMM_V1 : MPIB_IMM_V2;
	int rc = mpib_lane_create(tenant, version, mpib_peer_path(l->peer),
				  NULL, &l->lane);

	if (rc < 0) {
		l->lane = NULL;
		return rc;
	}
	mpib_lane_set_label(l->lane, l->peer->label);
	mpib_lane_set_class(l->lane, l->key.traffic_class);
	l->nonce = c->handle.nonce;
	l->asker = c->name;
	peer_lane_ask(l);
	return 0;
}

int peer_lane_get(struct peer_conn *c, char *why, size_t why_len)
{
	struct mpib_lane_key key = {
		.uid = c->client->uid,
		.from_shard = (uint16_t)c->client->shard,
		.to_shard = c->handle.shard,
		.traffic_class = c->traffic_class,
		.serial = c->broker->private_lanes ? ++c->broker->serial : 0,
	};
	struct peer_lane *l =
		key.serial ? NULL : lane_find_shared(c->peer, &key, true);
	int rc;

	if (l) {
		peer_lane_join(l, c);
		return 0;
	}
	rc = lane_quota(c->peer, key.uid, true, why, why_len);
	if (rc < 0)
		return rc;
	l = lane_new(c->peer, &key, true, mpib_broker_new_id(c->broker));
	rc = l ? setup_ask(l, c->client->tenant, c) : -ENOMEM;
	if (rc < 0)
		snprintf(why, why_len, "%s",
			 mpib_engine_last_error(c->broker->engine, rc));
	if (!l)
		return rc;
	if (rc < 0) {
		l->state = PEER_LANE_DEAD;
		l->uses++;
		peer_lane_put(l);
		return rc;
	}
	peer_lane_join(l, c);
	return 0;
}

static uint32_t ipv4_of_sup(const struct mpib_lane_info *info)
{
	const uint8_t *gid = info->rail[MPIB_RAIL_SUP].gid;
	struct in6_addr addr;
	uint32_t ip = 0;

	memcpy(&addr, gid, sizeof(addr));
	if (info->rails > MPIB_RAIL_SUP && IN6_IS_ADDR_V4MAPPED(&addr))
		memcpy(&ip, gid + 12, sizeof(ip));
	return ip;
}

/* Record the lane's SUP addresses for the agent. */
static void note_route(struct peer_lane *l, const struct mpib_lane_info *theirs)
{
	struct mpib_lane_info ours;

	mpib_lane_local(l->lane, &ours);
	l->sup_src = ipv4_of_sup(&ours);
	l->sup_dst = ipv4_of_sup(theirs);
}

static void came_up(struct peer_lane *l)
{
	struct peer_conn *c;

	l->state = PEER_LANE_UP;
	HASH_ADD(hh_lane, l->peer->broker->by_lane, lane, sizeof(l->lane), l);
	mpib_lane_established(l->lane);
	while ((c = TAILQ_FIRST(&l->waiting))) {
		TAILQ_REMOVE(&l->waiting, c, entry);
		peer_conn_laned(c);
	}
	/* the connections that wanted the lane may be gone */
	lane_watch_idle(l);
}

/* Both ends opened the same lane: give up this node's lane `mine`, and move the
 * connections to the peer's lane `theirs`. peer_lane_kill() tells the peer that
 * `mine` is gone. A peer that has already cancelled `theirs` needs this
 * message. */
static void yield_to(struct peer_lane *mine, struct peer_lane *theirs)
{
	struct peer_conn *c;

	mine->uses++;
	while ((c = TAILQ_FIRST(&mine->waiting))) {
		TAILQ_REMOVE(&mine->waiting, c, entry);
		peer_lane_leave(c);
		peer_lane_join(theirs, c);
		TAILQ_INSERT_TAIL(&theirs->waiting, c, entry);
	}
	peer_lane_kill(mine, -ECANCELED, "the other end opened it, too");
	peer_lane_put(mine);
}

/* The peer requests a lane for a connection. Find the client of this connection
 * on this node. The client must have accepted the connection before, or the
 * connection's listener must exist. Return 0, or -errno with a reason in
 * `why`. */
static int setup_proof(const struct mpib_peer *p, const struct mpib_peer_msg *m,
		       const struct peer_client **client, const char **why)
{
	const struct mpib_conn_name name = mpib_other_end(&m->name);
	const struct peer_conn *c = peer_conn_named(p->broker, &name);
	struct mpib_listener_entry *listener;
	int rc;

	if (c && c->peer == p && name.uid == m->key.uid) {
		*client = c->client;
		return 0;
	}
	rc = mpib_accept_proof(p->broker, m, m->key.uid, &listener, why);
	if (rc == 0)
		*client = listener->client;
	return rc;
}

/* Check whether the lane of a LANE_OPEN is allowed. `mine` is this node's own
 * lane, which the peer's lane would replace, or NULL if this node has none.
 * Return 0, or -errno with a reason in `why`. */
static int setup_admit(const struct mpib_peer *p, const struct mpib_peer_msg *m,
		       const struct peer_lane *mine, char *why, size_t why_len)
{
	struct mpib_broker *b = p->broker;
	const struct peer_client *client = NULL;
	const char *refused;
	int rc;

	if (m->key.to_shard >= mpib_engine_shards(b->engine)) {
		snprintf(why, why_len,
			 "there is no shard %u (is the handle "
			 "damaged?)",
			 m->key.to_shard);
		return -EINVAL;
	}
	/* A client of this node needs this lane, too. accept_lane_of() checks
	 * later whether the peer's connections are allowed to use the lane. */
	if (mine)
		return 0;
	/* Check that a client of this node needs the lane. Otherwise a peer
	 * could make this proxy create lanes without need. */
	rc = setup_proof(p, m, &client, &refused);
	if (rc < 0) {
		snprintf(why, why_len, "%s", refused);
		return rc;
	}
	if (client->shard != m->key.to_shard) {
		snprintf(why, why_len,
			 "the lane belongs to another user or shard");
		return -EACCES;
	}
	return lane_quota(p, m->key.uid, false, why, why_len);
}

static int setup_make(struct peer_lane *l, const struct mpib_peer_msg *m,
		      char *why, size_t why_len)
{
	struct mpib_engine *engine = l->peer->broker->engine;
	struct mpib_tenant *tenant;
	int rc;

	rc = mpib_tenant_get(engine, m->key.to_shard, m->key.uid, &tenant);
	if (rc < 0) {
		snprintf(why, why_len, "it has no protection domain: %s",
			 mpib_engine_last_error(engine, rc));
		return rc;
	}
	rc = mpib_lane_create(tenant, m->lane_info.imm_version,
			      mpib_peer_path(l->peer), &m->lane_info, &l->lane);
	mpib_tenant_put(tenant);
	if (rc < 0) {
		l->lane = NULL;
		if (rc == -EPROTO || rc == -ENOTSUP || rc == -ENETDOWN)
			snprintf(why, why_len, "%s",
				 mpib_engine_last_error(engine, rc));
		else
			snprintf(why, why_len, "it cannot make the QPs: %s",
				 mpib_engine_last_error(engine, rc));
		return rc;
	}
	mpib_lane_set_label(l->lane, l->peer->label);
	mpib_lane_set_class(l->lane, l->key.traffic_class);
	return mpib_lane_connect(l->lane, &m->lane_info, why, why_len);
}

static struct peer_lane *accept_lane(struct mpib_peer *p,
				     const struct mpib_peer_msg *m,
				     const struct peer_lane *mine, int *error,
				     char *why, size_t why_len)
{
	struct peer_lane *l;

	*error = setup_admit(p, m, mine, why, why_len);
	if (*error < 0)
		return NULL;
	l = lane_new(p, &m->key, false, mpib_broker_new_id(p->broker));
	if (!l) {
		*error = -ENOMEM;
		snprintf(why, why_len, "it is out of memory");
		return NULL;
	}
	l->their_id = m->from;
	*error = setup_make(l, m, why, why_len);
	if (*error == 0)
		return l;
	l->state = PEER_LANE_DEAD;
	l->uses++;
	peer_lane_put(l);
	return NULL;
}

static void setup_tell_accept(struct peer_lane *l)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_LANE_ACCEPT,
		.to = l->their_id,
		.from = l->id,
	};

	mpib_lane_local(l->lane, &m.lane_info);
	peer_lane_answer(l, &m);
	l->accept_sent = true;
}

/* Send the LANE_ACCEPT again to a peer that has not received it. Until the peer
 * receives the LANE_ACCEPT, every rail of the lane stays in its first epoch. So
 * this end still has its first QPs, which are connected to the QPs in the
 * LANE_OPEN. Send the LANE_ACCEPT only once per link, because making a
 * LANE_ACCEPT queries the devices. */
static void setup_accept_again(struct peer_lane *l)
{
	if (l->state != PEER_LANE_UP || l->accept_sent)
		return;
	setup_tell_accept(l);
	if (l->listed)
		/* list the lane again, because the peer has ignored all
		 * messages about the lane so far */
		mpib_relink_lane(l);
}

/* End a lane that the peer does not have any more. */
static void setup_ended_there(struct peer_lane *l, const char *why)
{
	l->muted = true;
	peer_lane_renew(l);
	peer_lane_lose(l, why);
}

bool peer_lane_on_open(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	bool is_private = m->lane_info.imm_version == MPIB_IMM_V1;
	struct peer_lane *mine = lane_find_shared(p, &m->key, false);
	struct peer_lane *l = lane_of_opener(p, m->from);
	char why[160];
	int error;

	if (m->from == 0 || is_private != (m->key.serial != 0) ||
	    m->key.from_shard >= MPIB_SHARDS_MAX)
		return false;
	if (l) {
		setup_accept_again(l);
		return true;
	}
	/* The peer opens another lane, so the peer no longer has the lane
	 * `mine`. */
	if (mine && mine->state == PEER_LANE_UP) {
		setup_ended_there(mine, "the other end opened it again");
		mine = NULL;
	}
	/* If this node has the lower node id, ignore the peer's LANE_OPEN. The
	 * peer will drop its own lane when it receives this node's
	 * LANE_OPEN. */
	if (mine && mpib_peer_we_are_lower(p))
		return true;
	l = accept_lane(p, m, mine, &error, why, sizeof(why));
	if (!l) {
		mpib_peer_refuse(p, MPIB_PEER_LANE_REJECT, m->from, error, why);
		if (error != -EAGAIN)
			mpib_warn("peer %s: lane refused: %s", p->label, why);
		/* Kill this node's own lane, too: the peer ignored this node's
		 * LANE_OPEN, because the peer's own LANE_OPEN had
		 * precedence. */
		if (mine)
			peer_lane_kill(mine, error, why);
		return true;
	}
	note_route(l, &m->lane_info);
	setup_tell_accept(l);
	if (mine)
		yield_to(mine, l);
	came_up(l);
	return true;
}

bool peer_lane_on_accept(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);
	char why[160];
	int rc;

	if (!l || l->state >= PEER_LANE_DYING) {
		/* this end gave up the lane after it had sent the LANE_OPEN */
		lane_tell_gone(p, m);
		return true;
	}
	if (l->state == PEER_LANE_UP && l->their_id == m->from)
		return true;
	if (!l->ours || l->state != PEER_LANE_ASKED || m->from == 0)
		return false;
	l->their_id = m->from;
	rc = mpib_lane_connect(l->lane, &m->lane_info, why, sizeof(why));
	if (rc < 0) {
		mpib_warn("peer %s: %s", p->label, why);
		peer_lane_kill(l, rc, why);
		return true;
	}
	note_route(l, &m->lane_info);
	came_up(l);
	return true;
}

/* A peer's messages about lanes. Each message can come twice, or refer to a
 * lane that this end no longer has. */

bool peer_lane_on_kept(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct peer_lane *l = peer_lane_find(p, m->to);

	if (l && l->state == PEER_LANE_ASKED)
		/* the peer will answer this node's LANE_OPEN, too */
		return l->ours;
	if (l && l->state == PEER_LANE_UP)
		return l->their_id == m->from;
	lane_tell_gone(p, m);
	return true;
}

/* Pause after the peer has temporarily refused a lane because of one
 * connection. Then the first of the other connections that waited for the lane
 * requests a new lane, and the rest wait for that lane. So only one lane is
 * requested per pause, even if many connections wait. */
#define OTHERS_NS (10 * MPIB_MSEC)

/* The peer has refused a lane because of the connection that the LANE_OPEN
 * named, or because of that connection's listener. Detach the other connections
 * that waited for the lane, and let them request a lane. */
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

bool peer_lane_on_reject(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);

	if (!l || l->state == PEER_LANE_DEAD)
		return true;
	if (!l->ours || l->state != PEER_LANE_ASKED)
		return false;
	l->muted = true; /* the peer does not have the lane */
	if (m->error == -ECONNREFUSED || m->error == -EACCES ||
	    m->error == -EAGAIN)
		ask_by_others(l, m);
	else
		peer_lane_kill(l, m->error, m->why);
	return true;
}

bool peer_lane_on_close(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	/* `to` is 0 if the opener had not received the LANE_ACCEPT. */
	struct peer_lane *l =
		m->to ? peer_lane_find(p, m->to) : lane_of_opener(p, m->from);

	/* If the lane is not up yet, ignore the message: the peer will send its
	 * own LANE_OPEN next. */
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

bool peer_lane_on_rail(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);

	/* If the lane is not up, ignore the message. Either this end will send
	 * a LANE_CLOSE, or the peer will send the rail's state again after its
	 * LANE_ACCEPT. */
	return !l || l->state != PEER_LANE_UP ||
	       mpib_lane_receive(l->lane, &m->rail);
}
