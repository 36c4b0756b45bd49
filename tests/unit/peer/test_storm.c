/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once, by many seeds: clients of three nodes listen, connect,
 * accept, close and die; connections and lanes break; proxies are killed and come
 * back; shards answer in any order. Whatever happens no memory is released
 * under a peer's writes (the fake engine watches), every close ends, and
 * nothing is left.
 */
#include "rig.h"

#include "test.h"

#define INDICES 6
#define HANDLES 16
#define SEEDS 150
#define STEPS 400

struct storm {
	struct rig *rig;
	unsigned seed;
	struct mpib_handle handle[HANDLES];
	uint32_t id[HANDLES];
	struct client *listener[HANDLES]; /* NULL: none */
};

static unsigned roll(struct storm *s, unsigned n)
{
	return (unsigned)rand_r(&s->seed) % n;
}

static struct client *any_client(struct storm *s)
{
	struct node *n = &s->rig->node[roll(s, NODES)];
	struct client *c;

	if (!n->broker || n->clients == 0)
		return NULL;
	c = &n->client[roll(s, n->clients)];
	return c->client.leaving ? NULL : c;
}

static void listen_somewhere(struct storm *s, struct client *c)
{
	unsigned h = roll(s, HANDLES);

	if (s->listener[h])
		return;
	s->listener[h] = c;
	s->id[h] = rig_listen(c, &s->handle[h]);
}

static void unlisten(struct storm *s)
{
	unsigned h = roll(s, HANDLES);
	struct client *c = s->listener[h];

	if (!c)
		return;
	mpib_broker_close_listen(c->node->broker, &c->client, s->id[h]);
	s->listener[h] = NULL;
}

static void connect_somewhere(struct storm *s, struct client *c)
{
	struct mpib_handle h = s->handle[roll(s, HANDLES)];

	if (roll(s, 20) == 0)
		h.nonce++;
	if (roll(s, 20) == 0)
		h.shard ^= 1;
	rig_try_call(c, roll(s, INDICES), roll(s, 20) ? -1 : 7, &h);
}

static void accept_somewhere(struct storm *s)
{
	unsigned h = roll(s, HANDLES);
	struct client *c = s->listener[h];

	if (c)
		mpib_broker_accept(c->node->broker, &c->client, s->id[h],
				   roll(s, INDICES));
}

static void on_gone(void *arg, int status)
{
	struct client *c = arg;

	(void)status;
	c->gone = true;
}

static void forget_listeners(struct storm *s, const struct node *n,
			     const struct client *c)
{
	for (unsigned h = 0; h < HANDLES; h++) {
		if (s->listener[h] == c ||
		    (n && s->listener[h] && s->listener[h]->node == n))
			s->listener[h] = NULL;
	}
}

static void break_something(struct storm *s, struct client *c)
{
	struct engine_conn *f = fake_conn(&c->engine_client, roll(s, INDICES));
	struct mpib_lane *l = fake_lane(&c->node->engine, roll(s, 4));

	if (f && roll(s, 2))
		fake_conn_break(f, -5, "the storm broke it");
	else if (l && l->connected && !l->killing)
		fake_lane_break(l, -5, "the storm broke it");
}

static void populate(struct storm *s, unsigned n)
{
	rig_up(s->rig, n);
	s->rig->node[n].engine.seed = 1 + roll(s, 1000);
	for (unsigned i = 0; i < 3; i++)
		rig_client(s->rig, n, 1000 + roll(s, 2), roll(s, 2));
}

static void restart_something(struct storm *s)
{
	unsigned n = roll(s, NODES);

	if (s->rig->node[n].broker) {
		forget_listeners(s, &s->rig->node[n], NULL);
		rig_kill(s->rig, n);
	}
	populate(s, n);
}

static void blow(struct storm *s)
{
	struct client *c = any_client(s);
	unsigned what = roll(s, 100);

	if (!c)
		return;
	if (what < 15) {
		listen_somewhere(s, c);
	} else if (what < 40) {
		connect_somewhere(s, c);
	} else if (what < 65) {
		accept_somewhere(s);
	} else if (what < 85) {
		mpib_broker_drop(c->node->broker, &c->client, roll(s, INDICES));
	} else if (what < 90) {
		unlisten(s);
	} else if (what < 94) {
		break_something(s, c);
	} else if (what < 96) {
		fake_engine_hold(&c->node->engine, roll(s, 3) == 0);
	} else if (what < 97) {
		forget_listeners(s, NULL, c);
		mpib_broker_forget(c->node->broker, &c->client, on_gone, c);
	} else if (what < 98) {
		restart_something(s);
	} else if (what < 99) {
		rig_cut(s->rig, (unsigned)(c->node - s->rig->node));
	} else {
		rig_advance(s->rig, roll(s, 3) * 300 * MPIB_MSEC);
	}
}

/* When the wind is gone, nothing may hang in between. */
static void check_calm(struct storm *s)
{
	for (unsigned n = 0; n < NODES; n++) {
		struct node *node = &s->rig->node[n];

		for (unsigned i = 0; node->broker && i < node->clients; i++) {
			struct client *c = &node->client[i];

			for (uint32_t x = 0; x < INDICES; x++) {
				struct engine_conn *f =
					fake_conn(&c->engine_client, x);
				uint32_t state = rig_state(c, x);

				assert_int_not_equal(state, MPIB_CONN_CLOSING);
				if (state != MPIB_CONN_READY) {
					assert_true(!f || !f->started);
					continue;
				}
				assert_non_null(f);
				assert_non_null(f->peer);
				assert_ptr_equal(f->peer->peer, f);
				assert_false(f->peer->stopping);
			}
		}
	}
}

static void storm(struct rig *rig, unsigned seed)
{
	struct storm s = { .rig = rig, .seed = seed };

	rig->seed = seed;
	rig->private_lanes = seed % 4 == 3;
	for (unsigned n = 0; n < NODES; n++)
		populate(&s, n);
	for (unsigned i = 0; i < STEPS; i++) {
		blow(&s);
		for (unsigned k = roll(&s, 4); k > 0; k--)
			rig_step(rig);
	}
	for (unsigned n = 0; n < NODES; n++)
		fake_engine_hold(&rig->node[n].engine, false);
	rig_pass(rig, 15 * MPIB_SEC);
	check_calm(&s);
}

static void nothing_breaks_the_rules(void **state)
{
	unsigned first = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1;
	unsigned last = getenv("SEED") ? first : SEEDS;

	for (unsigned seed = first; seed <= last; seed++) {
		rig_setup(state);
		print_message("seed %u\n", seed);
		storm(*state, seed);
		rig_teardown(state);
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(nothing_breaks_the_rules),
	{ 0 },
};
