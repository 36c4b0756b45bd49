/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An implementation of engine/engine.h without rails and shards, for tests of
 * the code that calls the engine. The fake records the calls and queues the
 * callbacks, which the test runs.
 *
 * The fake checks that the code never releases memory while a peer may write to
 * it. The fake engines of a process share the list of all objects. The fake
 * records a violation if a connection is destroyed while the other end is
 * running and neither end's lane was killed. The fake also records a violation
 * if the engine's functions are called in a wrong order. No object is freed
 * before fake_reset(), so the fake always detects the use of a destroyed
 * object.
 */
#ifndef MPIB_FAKE_ENGINE_H
#define MPIB_FAKE_ENGINE_H

#include <sys/queue.h>

#include "engine/engine.h"
#include "engine/measure/snapshot.h"

struct mpib_tenant {
	struct mpib_engine *engine;
	unsigned shard;
	uid_t uid;
	int refs;
	TAILQ_ENTRY(mpib_tenant) link;
};

struct engine_client {
	struct mpib_tenant *tenant;
	uint32_t id;
};

struct mpib_lane {
	struct mpib_tenant *tenant;
	struct mpib_lane_info local, remote;
	uint8_t traffic_class;
	/* number of rail messages that were repeated, and number that were
	 * received */
	unsigned retold, received;
	bool connected, killing, killed, destroying, destroyed;
	TAILQ_ENTRY(mpib_lane) link;
};

struct engine_conn {
	struct engine_client *engine_client;
	struct mpib_lane *lane;
	uint32_t index;
	bool sender, started, broken, stopping, stopped, destroying, destroyed;
	uint32_t hint; /* last hint slot that was set, plus 1 */
	/* address of its table, by which peers identify the connection */
	uint64_t addr;
	/* the other end, into whose table this connection writes; NULL before
	 * the start */
	struct engine_conn *peer;
	TAILQ_ENTRY(engine_conn) link;
};

struct fake_call;
TAILQ_HEAD(fake_calls, fake_call);

struct mpib_engine {
	unsigned shards, rails;
	const struct mpib_engine_events *events;
	void *ctx;
	int fd;
	struct fake_calls calls; /* queued callbacks */
	bool hold; /* do not run callbacks */
};

void fake_engine_init(struct mpib_engine *e, unsigned rails,
		      const struct mpib_engine_events *events, void *ctx);
void fake_engine_fini(struct mpib_engine *e);
/* Behave as if the engine's process was killed: its connections write no more,
 * and no callback runs. */
void fake_engine_die(struct mpib_engine *e);

/* If `hold` is set, run no callbacks. Otherwise run them again. */
void fake_engine_hold(struct mpib_engine *e, bool hold);

/* Return the number of lanes, or of connections, that are not destroyed. If `e`
 * is NULL, count those of all engines. */
unsigned fake_lanes(const struct mpib_engine *e);
unsigned fake_conns(const struct mpib_engine *e);
/* Return connection number `index` of the client, or NULL. */
struct engine_conn *fake_conn(const struct engine_client *a, uint32_t index);
/* Return lane number `n` of the engine, not counting destroyed lanes. */
struct mpib_lane *fake_lane(const struct mpib_engine *e, unsigned n);

/* Return the text of the first violation, or NULL. */
const char *fake_violation(void);
/* Free all objects and forget the violations. No broker may still refer to the
 * objects. */
void fake_reset(void);

/* The answer of engine_conn_unmoved(); fake_reset() sets it to false. */
extern bool fake_unmoved;

#endif
