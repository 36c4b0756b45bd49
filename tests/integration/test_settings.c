/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draw random settings, each of which is valid by itself. The proxy must either
 * refuse the combination with a reason or deliver messages. "test_settings N"
 * draws N combinations. "test_settings N SEED" begins with that seed.
 */
#include <stdio.h>

#include "config/config.h"
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define ENDS 3 /* number of connections */
/* number of messages, higher than the number of slots of a connection */
#define MESSAGES 260

static unsigned draws = 24, first = 1, ends;
static uint64_t dice;
/* The pairs of two users. The two users' pairs may be on different shards. */
static struct pair pair, more;
static struct mpib_config cfg;
static char drawn[2048];

static uint64_t draw(uint64_t n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % n;
}

/* The settings that are not drawn, each with the reason. Every other setting is
 * drawn. */
static const struct {
	const char *keys, *why;
} apart[] = {
	{ "run.dir run.group peer.key_file log.level log.format log.events "
	  "proxy.daemon proxy.core proxy.seccomp metrics.listen metrics.cert "
	  "metrics.key metrics.token_file metrics.hosts limit.readers",
	  "these are for the process and its sockets, which carry no "
	  "message" },
	{ "hca.sout hca.sup hca.gid_net hca.filter hca.speed device.layout "
	  "proxy.pin",
	  "these choose the rails, which are one or two fixed addresses here "
	  "(unit/test_rails, unit/test_layout, unit/test_near)" },
	{ "peer.addr peer.port peer.networks peer.silence client.answer "
	  "client.connect_timeout resume.grace",
	  "these are for the peer link and clients, and here the lane exists "
	  "already "
	  "(unit/test_broker, integration/test_late)" },
	{ "failover.enable failover.hold_down failover.grace fault.enable",
	  "a fence needs the peer link and clocks; the simulator draws these "
	  "settings (tests/sim/sim_plan.c)" },
	{ "agent.dir agent.user",
	  "there is no agent (integration/test_hints)" },
	{ "island.prefix island.networks",
	  "the path of the lane is drawn instead (unit/test_island)" },
	{ "qp.timeout qp.retry_cnt",
	  "exhausted retries end a connection, and one node's turn may "
	  "take longer than any of these timeouts "
	  "(unit/test_rdma_lane)" },
	{ "qp.pkey_index",
	  "the software HCA has one key; more are refused by the probe" },
	{ "qp.traffic_classes", "clients may request them, but none does here "
				"(unit/settings)" },
	{ "client.request_timeout",
	  "late requests fail by a clock (integration/test_late)" },
	{ "client.window client.part client.huge_pages",
	  "these are for memory that is copied; unit/test_any_order draws "
	  "them" },
	{ "client.own_memory",
	  "it refuses requests before any message is sent (attack_holes)" },
	{ "limit.clients quota.clients quota.connections quota.listeners "
	  "quota.lanes quota.regions quota.memory quota.fds quota.messages",
	  "these refuse requests before any message is sent "
	  "(integration/test_quota)" },
	{ "share.rules share.limit share.threads",
	  "rates depend on time, and share.threads only selects shards "
	  "(integration/test_shares, unit/test_place)" },
};

#define ROWS (sizeof(apart) / sizeof(apart[0]))

/* Return the reason why a setting is not drawn, or NULL if it is drawn. */
static const char *why_apart(const struct mpib_setting *s)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%s", s->section, s->key);
	for (unsigned i = 0; i < ROWS; i++) {
		const char *at = strstr(apart[i].keys, name);
		size_t n = strlen(name);

		for (; at; at = strstr(at + 1, name)) {
			if ((at == apart[i].keys || at[-1] == ' ') &&
			    (at[n] == ' ' || at[n] == '\0'))
				return apart[i].why;
		}
	}
	return NULL;
}

/* Return a value near an end of the setting's range, or a value of random
 * magnitude. */
static int64_t some_number(const struct mpib_setting *s)
{
	uint64_t span = (uint64_t)(s->max - s->min), at = span;

	switch (draw(4)) {
	case 0:
		return s->min + (int64_t)draw(span < 3 ? span + 1 : 3);
	case 1:
		return s->max - (int64_t)draw(span < 3 ? span + 1 : 3);
	}
	for (uint64_t halves = draw(33); halves > 0; halves--)
		at /= 2;
	return s->min + (int64_t)draw(at + 1);
}

static void set(const struct mpib_setting *s)
{
	char value[MPIB_VALUE_MAX], why[MPIB_WHY_MAX];
	unsigned choices = 0;

	while (s->choices && s->choices[choices])
		choices++;
	if (choices)
		snprintf(value, sizeof(value), "%s", s->choices[draw(choices)]);
	else
		snprintf(value, sizeof(value), "%lld",
			 (long long)some_number(s));
	if (mpib_config_set(&cfg, s, value, "drawn", why) < 0)
		fail_msg("%s", why);
	snprintf(drawn + strlen(drawn), sizeof(drawn) - strlen(drawn),
		 " --%s %s", s->flag, value);
}

/* Draw settings. Return false if the settings are refused. */
static bool draw_settings(void)
{
	char why[MPIB_WHY_MAX];

	mpib_config_init(&cfg);
	snprintf(cfg.sout, sizeof(cfg.sout), "soft:127.0.0.1");
	snprintf(cfg.sup, sizeof(cfg.sup), "%s",
		 draw(3) ? "soft:127.0.0.2" : "none");
	/* Set islands in half of the draws. Without islands, mode auto selects
	 * a different mode, and mode vanilla is refused. */
	if (draw(2))
		snprintf(cfg.island_networks, sizeof(cfg.island_networks),
			 "127.0.0.0/8");
	snprintf(drawn, sizeof(drawn), " --sup %s --island-networks %s",
		 cfg.sup, cfg.island_networks);
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		if (!why_apart(&mpib_settings[i]) && draw(3) == 0)
			set(&mpib_settings[i]);
	}
	return mpib_config_finish(&cfg, why) == 0;
}

static struct {
	struct pair *of;
	struct pair_end tx, rx;
	uint32_t sent[MPIB_REQUESTS], got[MPIB_REQUESTS];
	uint32_t len[MPIB_REQUESTS];
	unsigned from; /* number of the sending node */
} end[ENDS];

static uint64_t place(unsigned c, unsigned req, bool receive)
{
	return (receive ? PAIR_RX : 0) +
	       ((uint64_t)c * MPIB_REQUESTS + req) * (64u << 10);
}

static void post(unsigned c, unsigned req, uint32_t len)
{
	struct pair_node *to = &end[c].of->node[!end[c].from];
	struct pair_node *from = &end[c].of->node[end[c].from];

	end[c].len[req] = len;
	pair_fill(from->mem + place(c, req, false), len, c + req + len);
	end[c].got[req] = pair_post(&end[c].rx, MPIB_OP_RECV, (uint8_t)req,
				    to->mr, place(c, req, true), len, 7);
	end[c].sent[req] = pair_post(&end[c].tx, MPIB_OP_SEND, (uint8_t)req,
				     from->mr, place(c, req, false), len, 7);
}

static void finish(unsigned c, unsigned req)
{
	const struct pair_node *node = end[c].of->node;
	uint32_t len = end[c].len[req];

	if (!end[c].got[req])
		return;
	assert_int_equal(
		pair_wait(&pair, &end[c].rx, (uint8_t)req, end[c].got[req]),
		len);
	assert_int_equal(
		pair_wait(&pair, &end[c].tx, (uint8_t)req, end[c].sent[req]),
		len);
	assert_memory_equal(node[end[c].from].mem + place(c, req, false),
			    node[!end[c].from].mem + place(c, req, true), len);
	end[c].got[req] = 0;
}

static void run_traffic(void)
{
	unsigned at_once = 1 + (unsigned)draw(MPIB_REQUESTS / 2);
	uint32_t most = draw(4) ? 1024 : 64u << 10;

	for (unsigned i = 0; i < MESSAGES; i++) {
		/* Check here that no lane is broken, because the requests of a
		 * broken lane would never complete. */
		assert_int_equal(pair.node[0].lanes_broken, 0);
		assert_int_equal(pair.node[1].lanes_broken, 0);
		for (unsigned c = 0; c < ends; c++) {
			finish(c, i % at_once);
			post(c, i % at_once, (uint32_t)draw(most + 1));
		}
	}
	for (unsigned c = 0; c < ends; c++) {
		for (unsigned r = 0; r < at_once; r++)
			finish(c, r);
	}
}

/* If `both_ways` is false, all connections have the same direction, so the send
 * queues of the receiving node contain only CTS. */
static void connect_all(bool both_ways, bool two_users)
{
	for (unsigned c = 0; c < ends; c++) {
		end[c].of = two_users && c == 1 ? &more : &pair;
		end[c].from = both_ways && c == ENDS - 1;
		pair_connect(end[c].of, c, end[c].from, &end[c].tx, &end[c].rx);
	}
}

static void one_draw(unsigned seed)
{
	bool private, two_users;

	dice = 0x9e3779b97f4a7c15ull * (seed + 1);
	if (!draw_settings())
		return;
	/* Print the seed before the messages, because the text of a failed
	 * assertion does not contain it. */
	print_message("seed %u:%s\n", seed, drawn);
	private = cfg.lanes == MPIB_LANES_PRIVATE;
	pair_open_on(&pair, &cfg.engine, private ? MPIB_IMM_V1 : MPIB_IMM_V2,
		     draw(2) ? MPIB_PATH_INTRA : MPIB_PATH_INTER);
	ends = private ? 1 : ENDS;
	/* With longer receive queues, the CQ of a shard has room for only one
	 * user. */
	two_users = !private && cfg.engine.srq_high <= 16384 && draw(2);
	if (two_users)
		pair_join_on(&pair, &more, 1, (unsigned)draw(cfg.engine.shards),
			     (unsigned)draw(cfg.engine.shards));
	connect_all(draw(2), two_users);
	run_traffic();
	pair_close(&pair);
	if (two_users)
		pair_leave(&more);
}

/* If someone adds a setting of the engine, this test draws it automatically.
 * Any other new setting needs a row above. */
static void each_setting_is_drawn_or_listed_with_a_reason(void **state)
{
	unsigned keys = 0, names = 0;

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];
		bool engine =
			s->offset >= offsetof(struct mpib_config, engine) &&
			s->offset < offsetof(struct mpib_config, engine) +
					    sizeof(cfg.engine);

		keys += why_apart(s) != NULL;
		/* These two settings are turned into settings of the engine and
		 * of lanes. */
		if (!strcmp(s->flag, "mode") || !strcmp(s->flag, "lanes"))
			engine = true;
		if (!why_apart(s) && (!engine || s->type == MPIB_SET_TEXT))
			fail_msg("%s.%s is not a setting of the engine: "
				 "say why it is not drawn",
				 s->section, s->key);
	}
	for (unsigned i = 0; i < ROWS; i++) {
		names++;
		for (const char *at = apart[i].keys; *at; at++)
			names += *at == ' ';
	}
	assert_int_equal(keys, names);
}

static void messages_arrive_with_all_accepted_settings(void **state)
{
	for (unsigned i = 0; i < draws; i++)
		one_draw(first + i);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_setting_is_drawn_or_listed_with_a_reason),
		cmocka_unit_test(messages_arrive_with_all_accepted_settings),
	};

	if (argc > 1)
		draws = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		first = (unsigned)strtoul(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
