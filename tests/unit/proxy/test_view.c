/* SPDX-License-Identifier: Apache-2.0 */
/* view/view.h: the JSON of a snapshot made by hand. */
#include "stats/command.h"

#include "engine/conn/conn.h"
#include "peer/internal.h"
#include "proxy.h"
#include "test.h"

struct world {
	struct mpib_config cfg;
	struct proxy_clients clients;
	struct proxy_client client;
	struct mpib_snap_conn conn[2];
	struct mpib_snap_lane lane[2];
	struct mpib_snap_client past;
	struct mpib_snapshot snap;
	struct mpib_view view;
};

static struct mpib_loop loop;
static struct mpib_broker broker = { .loop = &loop };

static void add_client(struct world *w)
{
	struct proxy_client *s = &w->client;

	w->clients.cfg = &w->cfg;
	w->clients.broker = &broker;
	TAILQ_INIT(&w->clients.list);
	TAILQ_INSERT_TAIL(&w->clients.list, s, link);
	s->id = 7;
	s->pid = 1234;
	s->uid = 1000;
	s->state = PROXY_CLIENT_LIVE;
	s->registered = 4096;
	s->region_count = 1;
	s->peer_client.engine_client = (void *)w; /* any but NULL */
	snprintf(s->name, sizeof(s->name), "rank0");
	w->clients.usage = (struct mpib_usage){
		.clients = 1, .attached = 1, .regions = 1, .registered = 4096
	};
}

static int make_world(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	mpib_config_init(&w.cfg);
	add_client(&w);
	w.conn[0] = (struct mpib_snap_conn){
		.client = 7,
		.sender = true,
		.peer = "127.24.0.9:24790",
		.local_rank = 0,
		.remote_rank = 3,
		.messages = 5,
		.stalls = { [MPIB_STALL_CTS] = 2 },
		.n = { { .tx_bytes = 100 }, { .tx_bytes = 50 } },
	};
	w.conn[1] = (struct mpib_snap_conn){
		.client = 7,
		.index = 1,
		.local_rank = -1,
		.remote_rank = -1,
		.n = { { .rx_bytes = 10 }, { .rx_bytes = 20 } },
	};
	w.lane[0] = (struct mpib_snap_lane){ .peer = "a",
					     .qps = { 2, 4 },
					     .conns = 1 };
	w.lane[1] = w.lane[0];
	w.past = (struct mpib_snap_client){
		.id = 7,
		.closed = { { .tx_bytes = 200 }, { .rx_bytes = 1 } },
	};
	w.snap = (struct mpib_snapshot){
		.rail = { { .n = { .tx_bytes = 300, .rx_bytes = 10 },
			    .qps = 4,
			    .mtu = IBV_MTU_4096,
			    .up = true },
			  { .n = { .tx_bytes = 50, .rx_bytes = 21 } } },
		.devices = 1,
		.rails = 2,
		.shards = 1,
		.conns = 2,
		.lanes = 2,
		.conn = w.conn,
		.lane = w.lane,
		.clients = 1,
		.client = &w.past,
	};
	w.view = (struct mpib_view){
		.cfg = &w.cfg,
		.clients = &w.clients,
		.snap = &w.snap,
		.rail = { { "soft:127.24.0.1", "SOUT", .provider = "soft" },
			  { "soft:127.24.0.2", "SUP", .provider = "soft" } },
		.run_dir = "/run/x",
		.pid = 42,
	};
	*state = &w;
	return 0;
}

static json_int_t num(const json_t *o, const char *key)
{
	const json_t *n = json_object_get(o, key);

	if (!json_is_integer(n))
		fail_msg("no integer %s", key);
	return json_integer_value(n);
}

static json_int_t rail(const json_t *o, const char *key, const char *name)
{
	return num(json_object_get(o, key), name);
}

#define CASE(name) TEST_OF(name, make_world, NULL)

CASE(every_command_gives_a_value)
{
	static struct mpib_proxy proxy;
	const struct mpib_admin admin = { .plays = &proxy.plays,
					  .upgrade = &proxy.upgrade };
	struct world *w = *state;

	for (unsigned i = 0; i < mpib_command_count; i++) {
		const struct mpib_command *c = &mpib_commands[i];
		struct mpib_ask ask = { .view = &w->view, .admin = &admin };
		json_t *v;

		/* There is no proxy to change, or to ask others. */
		if (c->admin || c->needs == MPIB_NEEDS_CLUSTER)
			continue;
		v = c->fn(&ask);
		if (!v && !ask.text && !ask.error[0])
			fail_msg("%s gives nothing", c->name);
		json_decref(v);
		free(ask.text);
	}
}

CASE(rails_show_state_and_bytes)
{
	struct world *w = *state;
	json_t *v = mpib_view_rails(&w->view);
	const json_t *sout = json_array_get(v, 0), *sup = json_array_get(v, 1);

	assert_string_equal(json_string_value(json_object_get(sout, "name")),
			    "SOUT");
	assert_string_equal(json_string_value(json_object_get(sout, "state")),
			    "active");
	assert_string_equal(json_string_value(json_object_get(sup, "state")),
			    "down");
	assert_int_equal(num(sout, "tx_bytes"), 300);
	assert_int_equal(num(sout, "qps"), 4);
	assert_int_equal(num(sout, "mtu"), 4096);
	json_decref(v);
}

CASE(the_speed_is_that_of_the_snapshot)
{
	mpib_view_fn *const view[] = { mpib_view_rails, mpib_view_devices };
	struct world *w = *state;

	for (unsigned i = 0; i < 4; i++) {
		json_t *v;

		w->snap.rail[0].speed_mbps = 400000 >> i / 2;
		v = view[i % 2](&w->view);
		assert_int_equal(num(json_array_get(v, 0), "speed_mbps"),
				 400000 >> i / 2);
		json_decref(v);
	}
}

CASE(a_client_that_never_attached_is_not_shown)
{
	struct world *w = *state;
	json_t *v;

	w->client.peer_client.engine_client = NULL;
	v = mpib_view_clients(&w->view);
	assert_int_equal(json_array_size(v), 0);
	json_decref(v);
}

static unsigned count_of(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* The data of the command's answer, of which no part has more than so many items. arg: its
 * argument, or NULL. */
static json_t *answer_in_parts(struct world *w, const char *name,
			       const char *arg, const char *item)
{
	struct mpib_ask ask = { .view = &w->view,
				.argc = arg != NULL,
				.argv = { arg } };
	const struct mpib_command *c = mpib_commands;
	unsigned had = 0, have;
	json_t *v, *data;

	while (strcmp(c->name, name))
		c++;
	do {
		assert_null(c->fn(&ask));
		if (ask.part.more)
			fflush(ask.part.out);
		have = count_of(ask.part.more ? ask.part.text : ask.text, item);
		assert_in_range(have - had, 0, MPIB_VIEW_PART);
		had = have;
	} while (ask.part.more);
	v = json_loads(ask.text, 0, NULL);
	free(ask.text);
	assert_non_null(v);
	assert_true(json_is_true(json_object_get(v, "ok")));
	data = json_incref(json_object_get(v, "data"));
	json_decref(v);
	return data;
}

CASE(many_connections_are_listed_in_parts)
{
	static struct mpib_snap_conn conn[2 * MPIB_VIEW_PART + 5];
	const unsigned n = sizeof(conn) / sizeof(conn[0]);
	struct world *w = *state;
	json_t *v, *open;

	for (unsigned i = 0; i < n; i++) {
		conn[i] = w->conn[i % 2];
		conn[i].index = i;
	}
	w->snap.conn = conn;
	w->snap.conns = n;
	v = answer_in_parts(w, "conns", NULL, "\"index\"");
	open = json_object_get(v, "open");
	assert_int_equal(json_array_size(open), n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(num(json_array_get(open, i), "index"), i);
	assert_non_null(json_object_get(v, "closed"));
	json_decref(v);
	v = answer_in_parts(w, "why", NULL, "\"index\"");
	assert_int_equal(json_array_size(v), (n + 1) / 2); /* that send */
	json_decref(v);
	w->snap.conns = 0;
	v = answer_in_parts(w, "conns", NULL, "\"index\"");
	assert_int_equal(json_array_size(json_object_get(v, "open")), 0);
	json_decref(v);
}

/* A proxy with thousands of connections would else look for each of them among
 * all, on the thread that everybody waits for. */
CASE(a_histogram_has_its_connections_in_parts)
{
	enum {
		ENDS = 2 * MPIB_VIEW_PART + 5
	};
	static struct mpib_snap_conn conn[ENDS];
	static struct engine_conn end[ENDS];
	static struct engine_client client;
	static const struct mpib_engine engine; /* in whose lists is none */
	struct world *w = *state;
	json_t *v, *list;

	TAILQ_INIT(&client.timed);
	for (unsigned i = 0; i < ENDS; i++) {
		conn[i] = w->conn[0];
		conn[i].index = end[i].index = i;
		conn[i].sender = i != 3;
		mpib_hist_record(&end[i].times.hist[MPIB_TIME_SUBMIT_DONE],
				 1000);
		if (i != 5) /* closed since the snapshot */
			TAILQ_INSERT_TAIL(&client.timed, &end[i], client_link);
	}
	w->client.peer_client.engine_client = &client;
	w->view.engine = &engine;
	w->snap.conn = conn;
	w->snap.conns = ENDS;
	v = answer_in_parts(w, "hist", "send.submit_done", "\"index\"");
	assert_string_equal(json_string_value(json_object_get(v, "name")),
			    "send.submit_done");
	assert_non_null(json_object_get(v, "buckets"));
	list = json_object_get(v, "connections");
	assert_int_equal(json_array_size(list), ENDS - 2);
	for (unsigned i = 0; i < ENDS - 2; i++) {
		const json_t *o = json_array_get(list, i);

		assert_int_equal(num(o, "index"), i + (i >= 3) + (i >= 4));
		assert_int_equal(num(o, "count"), 1);
	}
	json_decref(v);
}

CASE(unknown_ranks_are_null)
{
	struct world *w = *state;
	json_t *v = answer_in_parts(w, "conns", NULL, "\"index\"");
	const json_t *open = json_object_get(v, "open");

	assert_int_equal(num(json_array_get(open, 0), "remote_rank"), 3);
	assert_true(json_is_null(
		json_object_get(json_array_get(open, 1), "remote_rank")));
	json_decref(v);
}

CASE(lanes_of_a_peer_are_one_peer)
{
	struct world *w = *state;
	json_t *v = mpib_view_peers(&w->view);

	assert_int_equal(json_array_size(v), 1);
	assert_int_equal(num(json_array_get(v, 0), "lanes"), 2);
	assert_int_equal(rail(json_array_get(v, 0), "qps", "sup"), 8);
	json_decref(v);
	snprintf(w->lane[0].peer, sizeof(w->lane[0].peer), "b");
	v = mpib_view_peers(&w->view);
	assert_int_equal(json_array_size(v), 2);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(v, 0), "peer")),
			    "b");
	json_decref(v);
}

CASE(one_rail_shows_nothing_of_the_other)
{
	struct world *w = *state;
	json_t *v;

	w->snap.rails = 1;
	v = mpib_view_clients(&w->view);
	assert_null(json_object_get(
		json_object_get(json_array_get(v, 0), "tx_bytes"), "sup"));
	json_decref(v);
}
