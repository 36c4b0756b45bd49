/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of the fake engine: they report the requests of
 * fake_old_request(). */
#include <stdlib.h>

#include "fake_objects.h"

struct taking {
	struct mpib_snapshot *snap;
	mpib_snapshot_fn *fn;
	void *arg;
	bool over;
};

uint32_t engine_client_id(const struct engine_client *engine_client)
{
	return engine_client->id;
}

void fake_old_request(struct mpib_engine *e, const struct mpib_snap_conn *conn,
		      const struct mpib_snap_request *request)
{
	struct fake_old *old = &e->old[e->olds++];

	old->conn = *conn;
	old->request = *request;
}

static void tell(void *arg, int status)
{
	struct taking *t = arg;

	(void)status;
	t->fn(t->arg, t->snap);
	free(t);
}

int mpib_engine_snapshot_requests(struct mpib_engine *engine, uint64_t older_ns,
				  mpib_snapshot_fn *fn, void *arg)
{
	struct mpib_snapshot *snap = calloc(1, sizeof(*snap));
	struct taking *t = calloc(1, sizeof(*t));

	engine->sweeps++;
	snap->conn = calloc(FAKE_OLD, sizeof(*snap->conn));
	snap->request = calloc(FAKE_OLD, sizeof(*snap->request));
	for (unsigned i = 0; i < engine->olds; i++) {
		snap->conn[i] = engine->old[i].conn;
		if (engine->old[i].request.age_ns < older_ns)
			continue;
		snap->request[snap->requests] = engine->old[i].request;
		snap->request[snap->requests++].conn = i;
	}
	snap->conns = engine->olds;
	*t = (struct taking){ .snap = snap, .fn = fn, .arg = arg };
	fake_later(engine, tell, t, &t->over);
	return 0;
}

void mpib_snapshot_free(struct mpib_snapshot *snap)
{
	free(snap->conn);
	free(snap->request);
	free(snap);
}
