/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, lanes and connections of the fake engine, and its record of
 * violations. */
#include "fake_objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/measure/snapshot.h"
#include "engine/recovery/failover.h"

static TAILQ_HEAD(, mpib_tenant) tenants = TAILQ_HEAD_INITIALIZER(tenants);
static TAILQ_HEAD(, mpib_lane) lanes = TAILQ_HEAD_INITIALIZER(lanes);
static TAILQ_HEAD(, engine_conn) conns = TAILQ_HEAD_INITIALIZER(conns);
static uint64_t next_addr = 0x1000;
static uint32_t next_qpn = 1;
static char violation[128];
bool fake_unmoved;

/* If `ok` is false, record a violation with the text `what`. */
static void fake_expect(bool ok, const char *what)
{
	if (!ok && !violation[0])
		snprintf(violation, sizeof(violation), "%s", what);
}

const char *fake_violation(void)
{
	return violation[0] ? violation : NULL;
}

void fake_reset(void)
{
	struct mpib_tenant *t;
	struct mpib_lane *l;
	struct engine_conn *f;

	while ((f = TAILQ_FIRST(&conns))) {
		TAILQ_REMOVE(&conns, f, link);
		free(f);
	}
	while ((l = TAILQ_FIRST(&lanes))) {
		TAILQ_REMOVE(&lanes, l, link);
		free(l);
	}
	while ((t = TAILQ_FIRST(&tenants))) {
		TAILQ_REMOVE(&tenants, t, link);
		free(t);
	}
	violation[0] = 0;
	fake_unmoved = false;
}

static void fake_conn_break(struct engine_conn *conn, int error,
			    const char *why)
{
	if (conn->broken || conn->stopping || !conn->started)
		return;
	conn->broken = true;
	fake_event(conn->engine_client->tenant->engine, conn, NULL, error, why);
}

int mpib_tenant_get(struct mpib_engine *engine, unsigned shard, uid_t uid,
		    struct mpib_tenant **tenant)
{
	struct mpib_tenant *t;

	fake_expect(shard < engine->shards, "a tenant has an unknown shard");
	TAILQ_FOREACH(t, &tenants, link)
	{
		if (t->engine == engine && t->shard == shard && t->uid == uid)
			break;
	}
	if (!t) {
		t = calloc(1, sizeof(*t));
		t->engine = engine;
		t->shard = shard;
		t->uid = uid;
		TAILQ_INSERT_TAIL(&tenants, t, link);
	}
	t->refs++;
	*tenant = t;
	return 0;
}

void mpib_tenant_put(struct mpib_tenant *tenant)
{
	fake_expect(tenant->refs-- > 0, "a tenant was released too often");
}

int mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
		     enum mpib_path path, const struct mpib_lane_info *want,
		     struct mpib_lane **lane)
{
	struct mpib_engine *e = tenant->engine;
	struct mpib_lane *l;

	/* Both ends must have the same path and spread, as in the real
	 * engine. */
	if (want && (want->path != path || want->spread != MPIB_SPREAD_SPLIT))
		return -EPROTO;
	if (want && want->rails != e->rails)
		return -ENOTSUP;
	l = calloc(1, sizeof(*l));
	l->tenant = tenant;
	l->local.imm_version = want ? want->imm_version : imm_version;
	l->local.path = (uint8_t)path;
	l->local.spread = MPIB_SPREAD_SPLIT;
	l->local.rails = (uint8_t)e->rails;
	l->local.away = want ? want->away : 0;
	for (unsigned r = 0; r < e->rails; r++) {
		l->local.rail[r].mtu = 3;
		l->local.rail[r].max_msg_sz = 1 << 30;
		l->local.rail[r].qps = want ? want->rail[r].qps : 2;
		for (unsigned q = 0; q < l->local.rail[r].qps; q++)
			l->local.rail[r].qpn[q] = next_qpn++;
		l->local.rail[r].ece = r == 0;
		for (unsigned q = 0; r == 0 && q < l->local.rail[r].qps; q++)
			l->local.rail[r].ece_options[q] = ~next_qpn;
	}
	TAILQ_INSERT_TAIL(&lanes, l, link);
	*lane = l;
	return 0;
}

void engine_conn_goes_on(struct engine_conn *conn)
{
	(void)conn;
}

void engine_conn_set_hint(struct engine_conn *conn, uint32_t slot)
{
	fake_expect(!conn->destroying, "a destroyed connection got a hint");
	conn->hint = slot + 1;
}

void mpib_lane_set_label(struct mpib_lane *lane, const char *peer)
{
	fake_expect(!lane->connected && peer[0], "a label was set too late");
}

void mpib_lane_set_class(struct mpib_lane *lane, uint8_t traffic_class)
{
	fake_expect(!lane->connected, "a class was set too late");
	lane->traffic_class = traffic_class;
}

void mpib_lane_local(const struct mpib_lane *lane, struct mpib_lane_info *info)
{
	*info = lane->local;
}

int mpib_lane_connect(struct mpib_lane *lane,
		      const struct mpib_lane_info *remote, char *why,
		      size_t why_len)
{
	int rc = remote->rails != lane->local.rails ||
				 remote->imm_version != lane->local.imm_version
			 ? -EPROTO
			 : 0;

	if (rc < 0) {
		snprintf(why, why_len, "the fake lane does not connect");
		return rc;
	}
	fake_expect(!lane->connected && !lane->destroying,
		    "a lane was connected too late");
	lane->connected = true;
	lane->remote = *remote;
	return 0;
}

void mpib_lane_established(struct mpib_lane *lane)
{
	fake_expect(lane->connected, "an unconnected lane was settled");
}

void mpib_lane_unlinked(struct mpib_lane *lane)
{
	fake_expect(lane->connected, "a lane that is not up was unlinked");
}

void mpib_lane_retell(struct mpib_lane *lane)
{
	fake_expect(lane->connected, "a lane that is not up was listed");
	lane->retold++;
}

bool mpib_lane_receive(struct mpib_lane *lane, const struct mpib_rail_msg *msg)
{
	(void)msg;
	lane->received++;
	return true;
}

void mpib_lane_kill(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct engine_conn *f;

	fake_expect(!lane->killing && !lane->destroying,
		    "a lane was killed twice");
	lane->killing = true;
	TAILQ_FOREACH(f, &conns, link)
	{
		if (f->lane == lane && !f->destroyed)
			fake_conn_break(f, -ECONNRESET, "its lane was killed");
	}
	fake_later(lane->tenant->engine, done, arg, &lane->killed);
}

void mpib_lane_destroy(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct engine_conn *f;

	fake_expect(!lane->destroying, "a lane was destroyed twice");
	fake_expect(!lane->connected || lane->killed,
		    "a lane was destroyed while it is up");
	TAILQ_FOREACH(f, &conns, link)
	fake_expect(f->lane != lane || f->destroyed,
		    "a lane was destroyed before its connections");
	lane->destroying = true;
	fake_later(lane->tenant->engine, done, arg, &lane->destroyed);
}

int engine_conn_create(struct engine_client *engine_client, uint32_t index,
		       bool sender, struct mpib_lane *lane,
		       struct engine_conn **conn)
{
	struct engine_conn *f;

	fake_expect(lane->tenant == engine_client->tenant,
		    "a connection has two tenants");
	fake_expect(!lane->destroying, "a connection has a destroyed lane");
	fake_expect(!fake_conn(engine_client, index),
		    "two connections have the same index");
	if (lane->local.imm_version == 1) {
		TAILQ_FOREACH(f, &conns, link)
		fake_expect(f->lane != lane,
			    "a private lane has two connections");
	}
	f = calloc(1, sizeof(*f));
	f->engine_client = engine_client;
	f->lane = lane;
	f->index = index;
	f->sender = sender;
	f->addr = next_addr;
	next_addr += 0x1000;
	TAILQ_INSERT_TAIL(&conns, f, link);
	*conn = f;
	return 0;
}

void engine_conn_local(const struct engine_conn *conn,
		       struct engine_conn_info *info)
{
	*info = (struct engine_conn_info){ .id = 1, .addr = conn->addr };
}

/* Return whether connection `from` may still write into the memory of
 * connection `to`. */
static bool can_reach(const struct engine_conn *from,
		      const struct engine_conn *to)
{
	return from->started && !from->stopped && !from->lane->killed &&
	       !to->lane->killed;
}

void engine_conn_start(struct engine_conn *conn,
		       const struct engine_conn_info *remote)
{
	struct engine_conn *f;

	fake_expect(!conn->started && !conn->stopping,
		    "a connection was started too late");
	fake_expect(conn->lane->connected,
		    "a connection started without a lane");
	conn->started = true;
	TAILQ_FOREACH(f, &conns, link)
	{
		if (f->addr != remote->addr)
			continue;
		conn->peer = f;
		fake_expect(!f->destroying || !can_reach(conn, f),
			    "a connection has a peer with freed memory");
	}
}

uint64_t engine_conn_ended(const struct engine_conn *conn)
{
	(void)conn;
	return 0;
}

bool engine_conn_unmoved(const struct engine_conn *conn)
{
	(void)conn;
	return fake_unmoved;
}

uint64_t mpib_engine_grace_ns(const struct mpib_engine *engine)
{
	(void)engine;
	return 0;
}

void engine_conn_peer_ended(struct engine_conn *conn, uint64_t ended)
{
	(void)conn;
	(void)ended;
}

void engine_conn_stop(struct engine_conn *conn, int error, mpib_done_fn *done,
		      void *arg)
{
	fake_expect(!conn->destroying, "a destroyed connection was stopped");
	(void)error;
	conn->stopping = true;
	fake_later(conn->engine_client->tenant->engine, done, arg,
		   &conn->stopped);
}

void engine_conn_destroy(struct engine_conn *conn, mpib_done_fn *done,
			 void *arg)
{
	struct engine_conn *f;

	fake_expect(conn->stopped,
		    "a connection was destroyed before its stop");
	fake_expect(!conn->destroying, "a connection was destroyed twice");
	TAILQ_FOREACH(f, &conns, link)
	fake_expect(f->peer != conn || !can_reach(f, conn),
		    "memory was freed while a peer may write");
	conn->destroying = true;
	fake_later(conn->engine_client->tenant->engine, done, arg,
		   &conn->destroyed);
}

unsigned fake_lanes(const struct mpib_engine *e)
{
	struct mpib_lane *l;
	unsigned n = 0;

	TAILQ_FOREACH(l, &lanes, link)
	n += !l->destroyed && (!e || l->tenant->engine == e);
	return n;
}

unsigned fake_conns(const struct mpib_engine *e)
{
	struct engine_conn *f;
	unsigned n = 0;

	TAILQ_FOREACH(f, &conns, link)
	n += !f->destroyed && (!e || f->engine_client->tenant->engine == e);
	return n;
}

struct engine_conn *fake_conn(const struct engine_client *a, uint32_t index)
{
	struct engine_conn *f;

	TAILQ_FOREACH(f, &conns, link)
	{
		if (f->engine_client == a && f->index == index && !f->destroyed)
			return f;
	}
	return NULL;
}

struct mpib_lane *fake_lane(const struct mpib_engine *e, unsigned n)
{
	struct mpib_lane *l;

	TAILQ_FOREACH(l, &lanes, link)
	{
		if (!l->destroyed && l->tenant->engine == e && n-- == 0)
			return l;
	}
	return NULL;
}

void fake_engine_die(struct mpib_engine *e)
{
	struct mpib_lane *l;
	struct engine_conn *f;

	TAILQ_FOREACH(l, &lanes, link)
	{
		if (l->tenant->engine == e)
			l->killed = l->destroyed = true;
	}
	TAILQ_FOREACH(f, &conns, link)
	{
		/* Ignore destroyed connections, because their client may
		 * already be freed. */
		if (!f->destroyed && f->engine_client->tenant->engine == e)
			f->stopped = f->destroyed = true;
	}
}
