/* SPDX-License-Identifier: Apache-2.0 */
/* Make snapshots of the fake engine, which never has requests. */
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

	(void)older_ns;
	*t = (struct taking){ .snap = snap, .fn = fn, .arg = arg };
	fake_later(engine, tell, t, &t->over);
	return 0;
}

void mpib_snapshot_free(struct mpib_snapshot *snap)
{
	free(snap);
}
