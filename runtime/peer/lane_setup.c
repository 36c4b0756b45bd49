/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How lanes come up. Control thread. When both ends open the same shared lane
 * at once, the opening of the lower node id counts: the lower node ignores the
 * other's LANE_OPEN, the higher gives up its own lane.
 */
#include <errno.h>
#include <mpib/wire.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/log.h"
#include "base/users.h"
#include "peer/internal.h"

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
		key.serial ? NULL : peer_lane_find_shared(c->peer, &key, true);
	int rc;

	if (l) {
		peer_lane_join(l, c);
		return 0;
	}
	rc = peer_lane_quota(c->peer, key.uid, true, why, why_len);
	if (rc < 0)
		return rc;
	l = peer_lane_new(c->peer, &key, true, mpib_broker_new_id(c->broker));
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

/* Note the lane's SUP addresses, for the agent. */
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

	peer_lane_up(l);
	mpib_lane_established(l->lane);
	while ((c = TAILQ_FIRST(&l->waiting))) {
		TAILQ_REMOVE(&l->waiting, c, entry);
		peer_conn_laned(c);
	}
	peer_lane_watch_idle(l); /* it may no longer be needed */
}

/* Both ends opened it: give up mine and move its connections to theirs. Tell
 * the peer, which may have cancelled its own before it reads mine. */
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

/* Find the client of the connection for which the lane is requested: the
 * connection was accepted before, or its listener exists. 0 or -errno and
 * why. */
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

/* Check whether the lane of a LANE_OPEN may be created. mine is this node's own
 * LANE_OPEN that it would replace, or NULL. */
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
	/* A client here wants this lane, too. Whether the peer's connections
	 * may use it is checked at their CONN_OPEN. */
	if (mine)
		return 0;
	/* Otherwise a peer could make this proxy create lanes that no client
	 * here wants. */
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
	if (p->lane_count >= mpib_places_for(MPIB_LANES_MAX, m->key.uid)) {
		snprintf(why, why_len,
			 "it holds %u lanes for this node "
			 "already (no more are possible)",
			 p->lane_count);
		return -ENOSPC;
	}
	return peer_lane_quota(p, m->key.uid, false, why, why_len);
}

/* Explain a disagreement about the path, which each end derives from its own
 * islands, or about the spread, which each reads from its own configuration. */
static void say_views(const struct mpib_peer *p,
		      const struct mpib_lane_info *theirs, char *why,
		      size_t why_len)
{
	uint8_t mode = mpib_engine_mode(p->broker->engine);
	enum mpib_spread spread = mpib_engine_spread(p->broker->engine);
	char ours[48], other[48];

	if (theirs->spread != spread) {
		snprintf(why, why_len,
			 "it spreads lanes by %s, and the other end by %s "
			 "(give both nodes the same lane.spread)",
			 mpib_spread_name(spread),
			 mpib_spread_name((enum mpib_spread)theirs->spread));
		return;
	}
	snprintf(why, why_len,
		 "it sees the path as %s, and the other end as %s (give both "
		 "nodes the same mode and islands)",
		 mpib_lane_view(mode, (uint8_t)mpib_peer_path(p), ours,
				sizeof(ours)),
		 mpib_lane_view(theirs->mode, theirs->path, other,
				sizeof(other)));
}

static int setup_make(struct peer_lane *l, const struct mpib_peer_msg *m,
		      char *why, size_t why_len)
{
	struct mpib_tenant *tenant;
	int rc;

	rc = mpib_tenant_get(l->peer->broker->engine, m->key.to_shard,
			     m->key.uid, &tenant);
	if (rc < 0) {
		snprintf(why, why_len, "it has no protection domain: %s",
			 mpib_engine_last_error(l->peer->broker->engine, rc));
		return rc;
	}
	rc = mpib_lane_create(tenant, m->lane_info.imm_version,
			      mpib_peer_path(l->peer), &m->lane_info, &l->lane);
	mpib_tenant_put(tenant);
	if (rc < 0) {
		l->lane = NULL;
		if (rc == -EPROTO)
			say_views(l->peer, &m->lane_info, why, why_len);
		else if (rc == -ENOTSUP)
			snprintf(why, why_len,
				 "it cannot match a lane of %u rail%s (give "
				 "both nodes the same rails)",
				 m->lane_info.rails,
				 m->lane_info.rails == 1 ? "" : "s");
		else if (rc == -ENETDOWN)
			snprintf(why, why_len, "%s",
				 mpib_engine_last_error(l->peer->broker->engine,
							rc));
		else
			snprintf(why, why_len, "it cannot make the QPs: %s",
				 mpib_engine_last_error(l->peer->broker->engine,
							rc));
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
	l = peer_lane_new(p, &m->key, false, mpib_broker_new_id(p->broker));
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

/* The peer has not read that the lane was accepted. Until then the lane's rails
 * remain in the first epoch, with the QPs that the peer asks for. Once per
 * link, because each time queries the devices. */
static void setup_accept_again(struct peer_lane *l)
{
	if (l->state != PEER_LANE_UP || l->accept_sent)
		return;
	setup_tell_accept(l);
	if (l->listed)
		mpib_relink_lane(l); /* the peer has ignored it so far */
}

/* The peer ended the lane, which this end did not learn, or does not have
 * it. */
static void setup_ended_there(struct peer_lane *l, const char *why)
{
	l->muted = true;
	peer_lane_renew(l);
	peer_lane_lose(l, why);
}

bool peer_lane_on_open(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	bool is_private = m->lane_info.imm_version == MPIB_IMM_V1;
	struct peer_lane *mine = peer_lane_find_shared(p, &m->key, false);
	struct peer_lane *l = peer_lane_of_opener(p, m->from);
	char why[160];
	int error;

	if (m->from == 0 || is_private != (m->key.serial != 0) ||
	    m->key.from_shard >= MPIB_SHARDS_MAX)
		return false;
	if (l) {
		setup_accept_again(l);
		return true;
	}
	/* If the peer still had the lane that is up, it would use that. */
	if (mine && mine->state == PEER_LANE_UP) {
		setup_ended_there(mine, "the other end opened it again");
		mine = NULL;
	}
	/* The peer drops its own lane when it gets mine. */
	if (mine && mpib_peer_we_are_lower(p))
		return true;
	l = accept_lane(p, m, mine, &error, why, sizeof(why));
	if (!l) {
		mpib_peer_refuse(p, MPIB_PEER_LANE_REJECT, m->from, error, why);
		if (error != -EAGAIN)
			mpib_warn("peer %s: lane refused: %s", p->label, why);
		/* The peer ignored mine in favour of the one just refused. */
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
		peer_lane_tell_gone(p, m); /* this end gave it up meanwhile */
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
