/* SPDX-License-Identifier: Apache-2.0 */
#include "heir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/conn/conn.h"
#include "engine/handover/handover.h"
#include "peer/handover/handover.h"
#include "peer/internal.h"

static struct peer_client *owner_of(void *arg, uint32_t client)
{
	struct node *node = arg;

	return client == node->number + 1 ? &node->client : NULL;
}

static void serial(struct mpib_serial *p, struct node *node,
		   struct mpib_engine *engine, struct mpib_broker *broker)
{
	mpib_engine_serialize(p, engine);
	mpib_broker_serialize(p, broker, owner_of, node);
	if (p->failed)
		die("node %u: %s", node->number, p->why);
}

/* As it would come out of a socket. */
static void heir_pass(struct mpib_serial *from, struct mpib_serial *to)
{
	uint8_t *bytes = malloc(from->len);
	int *fd = calloc(from->fds + 1, sizeof(*fd));

	if (!bytes || !fd)
		die("no memory");
	memcpy(bytes, from->bytes, from->len);
	for (size_t i = 0; i < from->fds; i++)
		fd[i] = fcntl(from->fd[i], F_DUPFD_CLOEXEC, 0);
	mpib_serial_unpack(to, bytes, from->len, fd, from->fds);
}

static struct mpib_engine *open_engine(struct node *node)
{
	struct mpib_engine_config cfg = node->engine->cfg;
	struct mpib_engine_inherited inherited;
	struct mpib_engine *engine;
	char why[300] = "";

	mpib_engine_inherited(node->engine, &inherited);
	cfg.inherited = &inherited;
	if (mpib_engine_open_idle(&cfg, node->engine->events, &node->broker,
				  &engine, why, sizeof(why)) < 0)
		die("%s", why);
	engine->cfg.inherited = NULL;
	return engine;
}

static struct mpib_broker *open_broker(struct node *node,
				       struct mpib_engine *engine)
{
	const struct mpib_broker_opts opts = {
		.loop = &node->loop,
		.engine = engine,
		.private_lanes = node->broker->private_lanes,
		.idle = true,
	};
	struct mpib_broker *broker;
	char why[300] = "";

	if (mpib_broker_open(&opts, &broker, why, sizeof(why)) < 0)
		die("%s", why);
	return broker;
}

static void attach(struct node *node, struct mpib_engine *engine, size_t mem)
{
	const struct mpib_mr_attr attr = { .addr = node->mem,
					   .len = mem,
					   .dmabuf_fd = -1 };

	if (mpib_tenant_get(engine, 0, 0, &node->tenant) < 0 ||
	    engine_client_open(node->tenant, node->number + 1, node->submit,
			       node->reply, node->bell,
			       &node->engine_client) < 0 ||
	    mpib_mr_restore(node->engine_client, &attr, node->mr) < 0)
		die("no client");
	node->client =
		(struct peer_client){ .tenant = node->tenant,
				      .engine_client = node->engine_client,
				      .reply = node->reply };
	mpib_engine_halt(engine); /* its shard gets to know it */
}

/* Adaptive mode learns from send ops that it asked for itself. */
static void no_samples(const struct mpib_engine *engine)
{
	const struct mpib_shard *s = &engine->shard[0];

	for (unsigned i = 0; i < ENGINE_CONNS_MAX; i++) {
		struct engine_conn *f = s->conn[i];

		if (!f || !f->is_sender)
			continue;
		for (uint32_t k = f->tx.op_tail; k != f->tx.op_head; k++) {
			if (send_op_at(f, k)->before >= 0)
				die("a send op that moved would be a sample");
		}
	}
}

/* A fence is told of as many connections as a lane has had, and of no more. */
static void same_lanes(const struct mpib_engine *engine,
		       const struct mpib_engine *old)
{
	for (unsigned i = 0; i < ENGINE_CONNS_MAX; i++) {
		const struct engine_conn *f = engine->shard[0].conn[i],
					 *o = old->shard[0].conn[i];

		if (f && f->lane->ctl.conns != o->lane->ctl.conns)
			die("a lane had %llu connections, and has had %llu",
			    (unsigned long long)o->lane->ctl.conns,
			    (unsigned long long)f->lane->ctl.conns);
	}
}

/* Without a word: its sockets live on. */
static void close_old(struct node *node)
{
	struct mpib_peer *p;

	mpib_engine_close(node->engine);
	TAILQ_FOREACH(p, &node->broker->peers, entry)
	{
		if (p->link)
			mpib_fifo_fini(&p->link->out.bytes);
	}
	mpib_broker_close(node->broker);
}

void node_hand_over(struct node *node, size_t mem)
{
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	struct mpib_serial out, in;

	mpib_serial_pack(&out);
	serial(&out, node, node->engine, node->broker);
	engine = open_engine(node);
	broker = open_broker(node, engine);
	attach(node, engine, mem);
	heir_pass(&out, &in);
	mpib_serial_fini(&out);
	serial(&in, node, engine, broker);
	mpib_serial_fini(&in);
	no_samples(engine);
	same_lanes(engine, node->engine);
	if (engine->shard[0].conn_id_next !=
	    node->engine->shard[0].conn_id_next)
		die("node %u gives ids of connections again", node->number);
	close_old(node);
	node->engine = engine;
	node->broker = broker;
	node->status = engine->status;
	if (mpib_broker_go_on(broker) < 0)
		die("node %u does not go on", node->number);
	mpib_engine_stay(engine);
}
