/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections have names, so that a repeated message has no effect. A message
 * that names a connection must have no effect if its sender is not the
 * connection's peer, or if the message names another user.
 */
#include <errno.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

struct pair {
	struct rig *rig;
	struct client *a, *b; /* `a` connects to `b` */
	struct mpib_handle handle;
	uint32_t listener;
	/* entry for `b`'s node in the peer table of `a`'s node */
	struct mpib_peer *peer;
};

static void pair_up(struct pair *pair, struct rig *rig)
{
	pair->rig = rig;
	rig_both_up(rig, &pair->a, &pair->b, 0);
	pair->listener = rig_listen(pair->b, &pair->handle);
	rig_call(pair->a, 0, 0, &pair->handle);
	rig_settle(rig);
	pair->peer = TAILQ_FIRST(&pair->a->node->broker->peers);
}

static void pair_accept(const struct pair *pair)
{
	rig_accept(pair->b, pair->listener, 0);
	rig_settle(pair->rig);
	rig_assert_ready(pair->a, pair->b, 0);
}

/* Make a message that the end at `a`, or another node that knows the
 * connection's name, could send. */
static struct mpib_peer_msg from_a(const struct pair *pair,
				   enum mpib_peer_type type)
{
	const struct peer_conn *c = pair->a->client.conn[0];
	struct mpib_peer_msg m = {
		.type = type,
		.name = c->name,
		.number = c->number,
		.nonce = c->handle.nonce,
		.from = c->id,
		.to = c->their_id,
		.lane = c->lane->their_id,
		.error = -ECANCELED,
	};

	engine_conn_local(c->conn, &m.conn);
	return m;
}

static void say(const struct pair *pair, struct mpib_peer *p,
		const struct mpib_peer_msg *m)
{
	mpib_peer_tell(p, m);
	rig_settle(pair->rig);
	assert_int_equal(p->state, MPIB_PEER_UP);
}

rig_test(a_repeated_conn_open_makes_one_end)
{
	struct mpib_peer_msg open;
	struct pair pair;

	pair_up(&pair, rig);
	open = from_a(&pair, MPIB_PEER_CONN_OPEN);
	say(&pair, pair.peer, &open);
	rig_accept(pair.b, pair.listener, 1);
	rig_settle(pair.rig);
	assert_int_equal(rig_state(pair.b, 1), MPIB_CONN_READY);
	rig_accept(pair.b, pair.listener, 0);
	say(&pair, pair.peer, &open);
	assert_int_equal(rig_state(pair.b, 0), MPIB_CONN_PENDING);
	assert_int_equal(rig_state(pair.a, 0), MPIB_CONN_READY);
	/* A CONN_OPEN with another id or another number has no effect
	 * either. */
	open.from += 1000;
	say(&pair, pair.peer, &open);
	open.from -= 1000;
	open.number++;
	say(&pair, pair.peer, &open);
	assert_int_equal(rig_state(pair.b, 0), MPIB_CONN_PENDING);
	assert_int_equal(rig_state(pair.b, 1), MPIB_CONN_READY);
}

/* The opener has replaced its end, so only the last CONN_OPEN may be
 * accepted. */
rig_test(a_conn_open_replaces_the_previous_one)
{
	struct mpib_peer_msg open;
	struct pair pair;

	pair_up(&pair, rig);
	open = from_a(&pair, MPIB_PEER_CONN_OPEN);
	open.from += 1000;
	say(&pair, pair.peer, &open);
	open.from -= 1000;
	say(&pair, pair.peer, &open);
	rig_accept(pair.b, pair.listener, 1);
	rig_accept(pair.b, pair.listener, 0);
	rig_settle(pair.rig);
	assert_int_equal(rig_state(pair.a, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(pair.b, 1), MPIB_CONN_READY);
	assert_int_equal(rig_state(pair.b, 0), MPIB_CONN_PENDING);
}

rig_test(a_connections_name_belongs_to_one_user)
{
	static const enum mpib_peer_type type[] = {
		MPIB_PEER_CONN_CLOSE,
		MPIB_PEER_CONN_OPEN,
		MPIB_PEER_CONN_CANCEL,
	};
	struct pair pair;

	pair_up(&pair, rig);
	for (unsigned i = 1; i < 3; i++) {
		struct mpib_peer_msg m = from_a(&pair, type[i]);

		m.name.uid = 2000;
		m.from += 1000;
		say(&pair, pair.peer, &m);
	}
	pair_accept(&pair);
	for (unsigned i = 0; i < 3; i++) {
		struct mpib_peer_msg m = from_a(&pair, type[i]);

		m.name.uid = 2000;
		m.from += 1000;
		say(&pair, pair.peer, &m);
	}
	rig_assert_ready(pair.a, pair.b, 0);
}

/* A third node, which has learned the connection's key, must not affect the
 * connection. */
rig_test(a_connections_name_belongs_to_one_node)
{
	static const enum mpib_peer_type type[] = {
		MPIB_PEER_CONN_OPEN,
		MPIB_PEER_CONN_CANCEL,
		MPIB_PEER_CONN_CLOSE,
	};
	struct client *c;
	struct mpib_peer *p;
	struct pair pair;

	pair_up(&pair, rig);
	rig_up(pair.rig, 2);
	c = rig_client(pair.rig, 2, 1000, 0);
	rig_connect(pair.rig, c, 0, pair.b, 1);
	p = TAILQ_FIRST(&c->node->broker->peers);
	for (unsigned ready = 0; ready < 2; ready++) {
		for (unsigned i = 0; i < 2 + ready; i++) {
			struct mpib_peer_msg m = from_a(&pair, type[i]);

			m.lane = c->client.conn[0]->lane->their_id;
			say(&pair, p, &m);
		}
		if (!ready)
			pair_accept(&pair);
	}
	rig_assert_ready(pair.a, pair.b, 0);
	assert_int_equal(rig_state(c, 0), MPIB_CONN_READY);
}

/* A CONN_OPEN without a key, or from a receiving end, is a protocol error. */
TEST(only_a_sending_end_can_open_a_connection)
{
	for (unsigned i = 0; i < 2; i++) {
		struct mpib_peer_msg m;
		struct pair pair;

		rig_setup(state);
		pair_up(&pair, *state);
		pair_accept(&pair);
		m = from_a(&pair, MPIB_PEER_CONN_OPEN);
		if (i)
			m.name.sender = 0;
		else
			m.name.key = 0;
		mpib_peer_tell(pair.peer, &m);
		rig_pass(pair.rig, MPIB_SEC);
		assert_int_equal(rig_state(pair.a, 0), MPIB_CONN_FAILED);
		rig_teardown(state);
	}
}

rig_test(a_connections_key_is_unique)
{
	struct mpib_ctl_connect ask = { .conn = 1, .number = 1 };
	struct pair pair;

	pair_up(&pair, rig);
	ask.handle = pair.handle;
	assert_int_equal(mpib_broker_connect(pair.a->node->broker,
					     &pair.a->client, &ask, true),
			 -EINVAL);
	ask.key = pair.a->client.conn[0]->name.key;
	assert_int_equal(mpib_broker_connect(pair.a->node->broker,
					     &pair.a->client, &ask, true),
			 -EEXIST);
	ask.key++;
	ask.number = 0;
	assert_int_equal(mpib_broker_connect(pair.a->node->broker,
					     &pair.a->client, &ask, true),
			 -EINVAL);
}
