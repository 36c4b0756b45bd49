/* SPDX-License-Identifier: Apache-2.0 */
/* The fake engine's queue of callbacks. */
#include "fake_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/measure/snapshot.h"

struct fake_call {
	TAILQ_ENTRY(fake_call) link;
	mpib_done_fn *done; /* NULL if this call is an event */
	void *arg;
	bool *mark; /* set to true when `done` is called */
	/* the object of an event: `conn` or, if `conn` is NULL, `lane` */
	struct engine_conn *conn;
	struct mpib_lane *lane;
	int error;
	char why[64];
};

void fake_engine_init(struct mpib_engine *e, unsigned rails,
		      const struct mpib_engine_events *events, void *ctx)
{
	*e = (struct mpib_engine){
		.shards = 2, .rails = rails, .events = events, .ctx = ctx
	};
	TAILQ_INIT(&e->calls);
	e->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void fake_engine_fini(struct mpib_engine *e)
{
	struct fake_call *c;

	while ((c = TAILQ_FIRST(&e->calls))) {
		TAILQ_REMOVE(&e->calls, c, link);
		free(c);
	}
	close(e->fd);
}

static struct fake_call *add_call(struct mpib_engine *e)
{
	struct fake_call *c = calloc(1, sizeof(*c));

	TAILQ_INSERT_TAIL(&e->calls, c, link);
	eventfd_write(e->fd, 1);
	return c;
}

void fake_later(struct mpib_engine *e, mpib_done_fn *done, void *arg,
		bool *mark)
{
	struct fake_call *c = add_call(e);

	c->done = done;
	c->arg = arg;
	c->mark = mark;
}

static void run(struct mpib_engine *e, struct fake_call *c)
{
	TAILQ_REMOVE(&e->calls, c, link);
	if (c->done) {
		*c->mark = true;
		c->done(c->arg, 0);
	} else if (c->conn && !c->conn->destroyed) {
		e->events->conn_broken(e->ctx, c->conn, c->error, c->why);
	} else if (c->lane && !c->lane->destroyed) {
		e->events->lane_broken(e->ctx, c->lane, c->error, c->why);
	}
	free(c);
}

int mpib_engine_fd(const struct mpib_engine *engine)
{
	return engine->fd;
}

unsigned mpib_engine_shards(const struct mpib_engine *engine)
{
	return engine->shards;
}

/* Run the queued callbacks. If these callbacks queue further callbacks, those
 * run at the next dispatch. */
static void run_all(struct mpib_engine *e)
{
	struct fake_call *c, *last = TAILQ_LAST(&e->calls, fake_calls);

	while (last && (c = TAILQ_FIRST(&e->calls))) {
		bool end = c == last;

		run(e, c);
		if (end)
			break;
	}
}

void mpib_engine_dispatch(struct mpib_engine *engine)
{
	eventfd_t count;

	eventfd_read(engine->fd, &count);
	if (!engine->hold)
		run_all(engine);
}

void fake_engine_hold(struct mpib_engine *e, bool hold)
{
	e->hold = hold;
	if (!hold)
		eventfd_write(e->fd, 1);
}

void fake_event(struct mpib_engine *e, struct engine_conn *conn,
		struct mpib_lane *lane, int error, const char *why)
{
	struct fake_call *c = add_call(e);

	c->conn = conn;
	c->lane = lane;
	c->error = error;
	snprintf(c->why, sizeof(c->why), "%s", why);
}

const char *mpib_engine_last_error(struct mpib_engine *engine, int rc)
{
	(void)engine;
	return strerror(-rc);
}

void mpib_engine_set_hints(struct mpib_engine *engine,
			   const struct mpib_hint_shm *hints)
{
	(void)engine;
	(void)hints;
}
