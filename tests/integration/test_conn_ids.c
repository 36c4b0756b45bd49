/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If all connection ids of a shard are in use, another connection is refused
 * with a reason, and existing connections continue. A released id is used
 * again, but as late as possible: after a fence, a message from the peer may
 * still refer to the previous connection with this id.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

TEST(a_connection_is_refused_if_the_shard_has_no_free_id)
{
	struct mpib_engine_config cfg;
	struct engine_conn *more;
	struct pair_node *n;
	struct mpib_shard *s;
	struct pair_end tx, rx;
	struct pair pair;
	const char *why;

	mpib_engine_config_init(&cfg);
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 0, 0, &tx, &rx);
	n = &pair.node[0];
	s = n->engine_client->shard;
	/* Mark all ids as used, as 256 clients with 1024 connections each
	 * would. */
	memset(s->conn_ids, 0xff, ENGINE_CONNS_MAX / 8);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(engine_conn_create(n->engine_client, 7, i & 1,
						    n->lane, &more),
				 -ENOSPC);
		why = mpib_engine_last_error(n->engine, -ENOSPC);
		if (!strstr(why, "262144 connections") ||
		    !strstr(why, "proxy.threads"))
			fail_msg("%s", why);
	}
	pair_transfer(&pair, &tx, &rx, 1, 100000, 100000, 1);
	s->conn_ids[ENGINE_CONNS_MAX / 64 - 1] &= ~(1ull << 62);
	pair_connect(&pair, 7, 0, &tx, &rx);
	assert_int_equal(tx.conn->id, ENGINE_CONNS_MAX - 2);
	assert_int_equal(
		engine_conn_create(n->engine_client, 8, true, n->lane, &more),
		-ENOSPC);
	/* This id has 18 bits, all of which must be in the IMMs of the
	 * connection's messages. */
	pair_transfer(&pair, &tx, &rx, 1, 100000, 100000, 1);
	pair_close(&pair);
}

TEST(a_released_id_is_reused_after_all_others)
{
	enum {
		FREE = 128
	};
	struct mpib_engine_config cfg;
	struct engine_conn *one;
	struct pair_node *n;
	struct pair pair;

	mpib_engine_config_init(&cfg);
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	n = &pair.node[0];
	memset(n->engine_client->shard->conn_ids, 0xff,
	       (ENGINE_CONNS_MAX - FREE) / 8);
	for (unsigned i = 0; i < 3 * FREE; i++) {
		bool destroyed = false;

		assert_int_equal(engine_conn_create(n->engine_client, 7, true,
						    n->lane, &one),
				 0);
		assert_int_equal(one->id, ENGINE_CONNS_MAX - FREE + i % FREE);
		engine_conn_destroy(one, pair_set_flag, &destroyed);
		pair_until(&pair, &destroyed);
	}
	pair_close(&pair);
}

/* Make a connection and close it. */
static int try_one(struct pair *p)
{
	struct pair_node *n = &p->node[0];
	struct engine_conn *conn;
	bool destroyed = false;
	int rc = engine_conn_create(n->engine_client, 7, true, n->lane, &conn);

	if (rc < 0)
		return rc;
	engine_conn_destroy(conn, pair_set_flag, &destroyed);
	pair_until(p, &destroyed);
	return 0;
}

TEST(the_last_connections_are_reserved_for_root)
{
	struct mpib_engine_config cfg;
	struct pair root, user;
	struct mpib_shard *s;
	unsigned had;

	mpib_engine_config_init(&cfg);
	pair_open(&root, &cfg, MPIB_IMM_V2);
	pair_join(&root, &user, 1000);
	s = root.node[0].engine_client->shard;
	had = s->conns_made;
	/* Set the counter as if other users had almost all connections. */
	s->conns_made = ENGINE_CONNS_MAX - ENGINE_CONNS_MAX / 32 - 1;
	assert_int_equal(try_one(&user), 0);
	s->conns_made++;
	assert_int_equal(try_one(&user), -ENOSPC);
	assert_in(mpib_engine_last_error(root.node[0].engine, -ENOSPC),
		  "253952 connections");
	assert_int_equal(try_one(&root), 0);
	s->conns_made = had;
	pair_close(&root);
	pair_leave(&user);
}
