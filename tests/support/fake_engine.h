/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/engine.h without rails and shards, for tests of what stands on it.
 * Calls are recorded; callbacks wait in a queue until the test lets them run,
 * in order or in one that a seed picks.
 *
 * It watches the rule that memory is never released while a peer may write it:
 * all engines of the process know each other, so a connection that is destroyed while
 * its peer's connection runs, and no lane of the two was killed, is a violation, as
 * are calls out of order. Objects stay until fake_reset(), so that late use is
 * seen, not guessed.
 */
#ifndef MPIB_FAKE_ENGINE_H
#define MPIB_FAKE_ENGINE_H

#include <sys/queue.h>

#include "engine/engine.h"
#include "engine/measure/snapshot.h"

#define FAKE_OLD 4

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
	bool connected, killing, killed, destroying, destroyed;
	int conns;
	TAILQ_ENTRY(mpib_lane) link;
};

struct engine_conn {
	struct engine_client *engine_client;
	struct mpib_lane *lane;
	uint32_t index;
	bool sender, started, broken, stopping, stopped, destroying, destroyed;
	int error; /* of the first stop */
	uint32_t hint; /* slot + 1, as last set */
	uint64_t addr; /* its table, by which its peer knows it */
	uint64_t moved_to; /* its peer's, 0: that never moved */
	struct engine_conn *peer; /* whose table it writes, once started */
	TAILQ_ENTRY(engine_conn) link;
};

/* A request that a snapshot tells of. */
struct fake_old {
	struct mpib_snap_conn conn;
	struct mpib_snap_request request;
};

struct fake_call;
TAILQ_HEAD(fake_calls, fake_call);

struct mpib_engine {
	enum mpib_spread spread;
	unsigned shards, rails;
	uint8_t away; /* of the rails; of lanes from now on */
	const struct mpib_engine_events *events;
	void *ctx;
	int fd;
	struct fake_calls calls; /* callbacks to come */
	bool hold; /* run none of them */
	unsigned seed; /* not 0: one a dispatch, and which by chance */
	int fail_lane, fail_connect, fail_conn; /* -errno for the next one */
	struct fake_old old[FAKE_OLD];
	unsigned olds, sweeps; /* snapshots of requests asked for */
};

void fake_engine_init(struct mpib_engine *e, unsigned rails,
		      const struct mpib_engine_events *events, void *ctx);
void fake_engine_fini(struct mpib_engine *e);
/* Its process is killed: nothing of it writes any more, nothing calls back. */
void fake_engine_die(struct mpib_engine *e);

/* Keep callbacks back, or let them run again. */
void fake_engine_hold(struct mpib_engine *e, bool hold);
/* Run waiting callbacks whatever hold says. Returns how many ran. */
int fake_engine_flush(struct mpib_engine *e);
bool fake_engine_idle(const struct mpib_engine *e);

/* What a shard would find. */
void fake_conn_break(struct engine_conn *conn, int error, const char *why);
void fake_lane_break(struct mpib_lane *lane, int error, const char *why);

/* From now on snapshots tell of this one, at most FAKE_OLD. */
void fake_old_request(struct mpib_engine *e, const struct mpib_snap_conn *conn,
		      const struct mpib_snap_request *request);

/* Of the engine (NULL: all), in any state but destroyed. */
unsigned fake_lanes(const struct mpib_engine *e);
unsigned fake_conns(const struct mpib_engine *e);
/* At the index of a client, NULL if there is none. */
struct engine_conn *fake_conn(const struct engine_client *a, uint32_t index);
/* The n-th lane of the engine that is not destroyed. */
struct mpib_lane *fake_lane(const struct mpib_engine *e, unsigned n);

/* Breaches of the rules since the last reset; the first is in words. */
unsigned fake_violations(void);
const char *fake_violation(void);
/* Free all objects; no broker may know them any more. */
void fake_reset(void);

#endif
