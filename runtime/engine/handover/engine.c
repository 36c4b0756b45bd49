/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-over of the engine as a whole: stopping and starting the shards, the
 * status segment, and the regions of clients. Control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/conn/conn.h"
#include "engine/handover/handover.h"

static void check_sums(const struct mpib_engine *engine)
{
	struct mpib_sum sum;
	char whose[32];

	for (unsigned i = 0; MPIB_SUMS_CHECKED && i < engine->shards; i++) {
		if (mpib_shard_sums(&engine->shard[i], &sum))
			continue;
		snprintf(whose, sizeof(whose), "shard %u", i);
		mpib_sum_abort(whose, &sum);
	}
}

void mpib_engine_halt(struct mpib_engine *engine)
{
	int ran;

	while (engine->running > 0)
		mpib_shard_join(&engine->shard[--engine->running]);
	/* No shard thread runs any more: run the mailboxes of both sides on
	 * this thread until they are empty. */
	do {
		ran = mpib_mailbox_run(&engine->mailbox);
		for (unsigned i = 0; i < engine->shards; i++)
			ran += mpib_mailbox_run(&engine->shard[i].mailbox);
	} while (ran > 0);
	check_sums(engine);
}

int mpib_engine_ready(struct mpib_engine *engine)
{
	int rc = 0;

	for (unsigned i = 0; i < engine->shards && rc == 0; i++)
		rc = mpib_shard_make_thread(&engine->shard[i]);
	return rc;
}

int mpib_engine_run(struct mpib_engine *engine)
{
	engine->status->pid = (uint32_t)getpid();
	while (engine->running < engine->shards) {
		struct mpib_shard *s = &engine->shard[engine->running];
		/* The heartbeat of an inherited segment goes on from where the
		 * old process left it: it must not go back. */
		uint64_t beat = atomic_load_explicit(&s->status->heartbeat,
						     memory_order_relaxed);
		int rc;

		if (s->n.turns < beat)
			s->n.turns = beat;
		rc = mpib_shard_start(s);
		if (rc < 0)
			return rc;
		engine->running++;
	}
	return 0;
}

void mpib_engine_inherited(const struct mpib_engine *engine,
			   struct mpib_engine_inherited *h)
{
	*h = (struct mpib_engine_inherited){
		.status = engine->status_seg.own,
		.shards = engine->shards,
	};
}

int mpib_engine_inherit(struct mpib_engine *engine)
{
	const struct mpib_engine_inherited *h = engine->cfg.inherited;
	const struct mpib_status *status;
	int fd, rc;

	if (h->shards != engine->cfg.devices * engine->cfg.shards)
		return -EXDEV;
	fd = fcntl(h->status, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = mpib_memseg_adopt(&engine->status_seg, fd, sizeof(*status), true);
	if (rc < 0)
		return rc;
	status = engine->status = engine->status_seg.addr;
	if (status->magic == MPIB_STATUS_MAGIC &&
	    status->version == MPIB_ABI_VERSION)
		return 0;
	mpib_memseg_fini(&engine->status_seg);
	return -EPROTO;
}

void mpib_engine_serialize(struct mpib_serial *p, struct mpib_engine *engine)
{
	uint32_t drained = mpib_engine_drained(engine);

	mpib_serial_mark(p, "engine");
	mpib_serial_u32(p, &drained);
	if (!p->packing)
		atomic_store(&engine->drained, drained);
	for (unsigned i = 0; i < engine->shards; i++) {
		mpib_serial_count(p, &engine->shard[i].conn_id_next,
				  ENGINE_CONNS_MAX - 1);
		mpib_shard_counts_serialize(p, &engine->shard[i]);
	}
}

int mpib_mr_restore(struct engine_client *client,
		    const struct mpib_mr_attr *attr, uint32_t handle)
{
	if (handle == 0 || handle >= MPIB_MRS_MAX || client->mr_made[handle])
		return -EINVAL;
	return mpib_mr_make(client, attr, handle, &client->mr[handle]);
}

void mpib_mrs_serialize(struct mpib_serial *p, struct engine_client *client)
{
	mpib_serial_u32(p, &client->mr_given);
	if (client->mr_given >= MPIB_MRS_MAX)
		mpib_serial_fail(p, "a client has no region %u",
				 client->mr_given);
}
