/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine/engine.h without rails and shards, for tests of the code that calls
 * the engine. Calls are recorded; callbacks wait in a queue until the test runs
 * them, in order or in an order chosen by a seed.
 *
 * The fake checks that memory is never released while a peer may write into it.
 * All engines of the process know each other, so it is a violation to destroy a
 * connection while its peer's connection runs and the lane of neither was
 * killed. Calls out of order are violations, too. Objects are not freed before
 * fake_reset(), so late use of one is always detected.
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
	unsigned retold, received; /* messages about rails */
	bool connected, killing, killed, destroying, destroyed;
	TAILQ_ENTRY(mpib_lane) link;
};

struct engine_conn {
	struct engine_client *engine_client;
	struct mpib_lane *lane;
	uint32_t index;
	bool sender, started, broken, stopping, stopped, destroying, destroyed;
	uint32_t hint; /* slot + 1, as last set */
	uint64_t addr; /* of its table; identifies it to its peer */
	struct engine_conn *peer; /* into whose table it writes, if started */
	TAILQ_ENTRY(engine_conn) link;
};

struct fake_call;
TAILQ_HEAD(fake_calls, fake_call);

struct mpib_engine {
	enum mpib_spread spread;
	unsigned shards, rails;
	uint8_t away; /* mask of absent rails, for new lanes */
	const struct mpib_engine_events *events;
	void *ctx;
	int fd;
	struct fake_calls calls; /* callbacks not yet run */
	bool hold; /* run no callback */
	unsigned seed; /* not 0: run one random callback per dispatch */
};

void fake_engine_init(struct mpib_engine *e, unsigned rails,
		      const struct mpib_engine_events *events, void *ctx);
void fake_engine_fini(struct mpib_engine *e);
/* Behave as if the engine's process were killed: its connections write no more
 * and no callback runs. */
void fake_engine_die(struct mpib_engine *e);

/* Hold callbacks, or let them run again. */
void fake_engine_hold(struct mpib_engine *e, bool hold);

/* Return the number of lanes or connections of e (NULL: of all engines) that
 * are not destroyed. */
unsigned fake_lanes(const struct mpib_engine *e);
unsigned fake_conns(const struct mpib_engine *e);
/* Return the connection of client a at index, or NULL. */
struct engine_conn *fake_conn(const struct engine_client *a, uint32_t index);
/* Return the n-th lane of the engine that is not destroyed. */
struct mpib_lane *fake_lane(const struct mpib_engine *e, unsigned n);

/* Return the number of violations since the last reset, or the text of the
 * first. */
unsigned fake_violations(void);
const char *fake_violation(void);
/* Free all objects; no broker may refer to them any more. */
void fake_reset(void);

#endif
