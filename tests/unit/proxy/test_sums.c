/* SPDX-License-Identifier: Apache-2.0 */
/* view/sums.h: nothing that was moved is lost or counted twice. */
#include "view/fields.h"

#include "test.h"
#include "view/view.h"

/* Clients 1 and 2 are here; a third one left, and only the rails know of it. */
static struct mpib_snap_conn conn[] = {
	{ .client = 1, .messages = 2, .n = { { .tx_bytes = 10 }, { 0 } } },
	{ .client = 2, .messages = 4, .n = { { .rx_bytes = 20 }, { 0 } } },
	{ .client = 1, .messages = 8, .n = { { 0 }, { .tx_bytes = 40 } } },
};
static struct mpib_snap_client client[] = {
	{ .id = 1,
	  .held = 3,
	  .closed_messages = 16,
	  .closed = { { .tx_bytes = 80 }, { .rx_bytes = 160 } } },
	{ .id = 2 },
};
static const struct mpib_snapshot snap = {
	.devices = 1,
	.rails = MPIB_RAILS,
	.shards = 1,
	.conns = 3,
	.conn = conn,
	.clients = 2,
	.client = client,
	.rail = { { .n = { .tx_bytes = 1000, .rx_bytes = 2000 } },
		  { .n = { .tx_bytes = 3000, .rx_bytes = 4000 } } },
};

TEST(a_client_has_what_its_open_and_closed_connections_moved)
{
	struct mpib_sums *all = mpib_sums_all(&snap);
	const struct mpib_client_sums *sums;

	assert_non_null(all);
	sums = mpib_sums_get(all, 1);
	assert_int_equal(sums->connections, 2);
	assert_int_equal(sums->messages, 2 + 8 + 16);
	assert_int_equal(sums->limited, 3);
	assert_int_equal(sums->n[0].tx_bytes, 10 + 80);
	assert_int_equal(sums->n[0].rx_bytes, 0);
	assert_int_equal(sums->n[1].tx_bytes, 40);
	assert_int_equal(sums->n[1].rx_bytes, 160);
	mpib_sums_free(all);
}

TEST(a_client_that_is_not_there_has_nothing)
{
	static const struct mpib_client_sums none;
	struct mpib_sums *all = mpib_sums_all(&snap);

	assert_non_null(all);
	assert_memory_equal(mpib_sums_get(all, 9), &none, sizeof(none));
	mpib_sums_free(all);
}

static json_int_t num(const json_t *list, size_t at, const char *key)
{
	return json_integer_value(
		json_object_get(json_array_get(list, at), key));
}

TEST(clients_and_jobs_are_made_of_them)
{
	static struct proxy_client here[2];
	static struct proxy_clients clients;
	static struct mpib_config cfg;
	static const struct mpib_view view = { .cfg = &cfg,
					       .clients = &clients,
					       .snap = &snap };
	json_t *list;

	mpib_config_init(&cfg);
	TAILQ_INIT(&clients.list);
	for (unsigned i = 0; i < 2; i++) {
		TAILQ_INSERT_TAIL(&clients.list, &here[i], link);
		here[i].id = i + 1;
		here[i].job = 9;
		here[i].peer_client.engine_client =
			(struct engine_client *)&clients; /* any but NULL */
		mpib_job_join(&clients.jobs, &here[i]);
	}
	list = mpib_view_clients(&view);
	assert_int_equal(json_array_size(list), 2);
	assert_int_equal(num(list, 0, "connections"), 2);
	assert_int_equal(num(list, 1, "connections"), 1);
	assert_int_equal(num(list, 0, "messages"), 2 + 8 + 16);
	json_decref(list);
	list = mpib_view_jobs(&view);
	assert_int_equal(json_array_size(list), 1);
	assert_int_equal(num(list, 0, "messages"), 2 + 4 + 8 + 16);
	assert_int_equal(num(list, 0, "tx_bytes"), 10 + 40 + 80);
	json_decref(list);
}

TEST(open_and_closed_ones_add_up_to_the_rails)
{
	struct mpib_rail_counts sum[MPIB_RAILS];

	mpib_sums_closed(&snap, sum);
	assert_int_equal(sum[0].tx_bytes, 990);
	assert_int_equal(sum[0].rx_bytes, 1980);
	assert_int_equal(sum[1].tx_bytes, 2960);
	assert_int_equal(sum[1].rx_bytes, 4000);
	for (uint32_t i = 0; i < snap.conns; i++)
		mpib_sums_add(sum, snap.conn[i].n);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		assert_memory_equal(&sum[r], &snap.rail[r].n, sizeof(sum[r]));
}
