/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings drawn by a seed, each legal by itself: either they are refused with a
 * reason, or traffic flows with them. "test_settings N" draws N times,
 * "test_settings N SEED" begins with that seed.
 */
#include <stdio.h>

#include "config/config.h"
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define ENDS 3 /* connections */
#define MESSAGES 260 /* more than the slots of a connection, on one QP */

static unsigned draws = 24, first = 1, ends;
static uint64_t dice;
static struct pair pair;
static struct mpib_config cfg;
static char drawn[2048];

static uint64_t draw(uint64_t n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % n;
}

/* Of the engine, but for what a pair that is turned by hand has no say in, what
 * the software HCA has not, and what a clock would have to be waited for. */
static bool matters(const struct mpib_setting *s)
{
	static const char *const not [] = { "proxy", "hca",   "failover",
					    "log",   "agent", "share" };

	if (s->offset < offsetof(struct mpib_config, engine) ||
	    s->type == MPIB_SET_TEXT || !strcmp(s->key, "pkey_index"))
		return !strcmp(s->flag, "lanes");
	for (unsigned i = 0; i < sizeof(not ) / sizeof(not [0]); i++) {
		if (!strcmp(s->section, not [i]))
			return false;
	}
	return s->offset < offsetof(struct mpib_config, engine) +
				   sizeof(struct mpib_engine_config);
}

/* An end of the range, near one, or anything by its magnitude. */
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

/* False: refused. */
static bool draw_settings(void)
{
	char why[MPIB_WHY_MAX];

	mpib_config_init(&cfg);
	snprintf(cfg.sout, sizeof(cfg.sout), "soft:127.0.0.1");
	snprintf(cfg.sup, sizeof(cfg.sup), "%s",
		 draw(3) ? "soft:127.0.0.2" : "none");
	snprintf(cfg.island_networks, sizeof(cfg.island_networks),
		 "127.0.0.0/8");
	snprintf(drawn, sizeof(drawn), " --sup %s", cfg.sup);
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		if (matters(&mpib_settings[i]) && draw(3) == 0)
			set(&mpib_settings[i]);
	}
	if (mpib_config_finish(&cfg, why) < 0)
		return false;
	/* Retries that run out end a connection, as whoever limits them wants,
	 * and here the turn of one node may last for longer than any of them. */
	cfg.engine.rnr_retry = 7;
	cfg.engine.timeout = 20;
	cfg.engine.retry_cnt = 7;
	return true;
}

static struct {
	struct pair_end tx, rx;
	uint32_t sent[MPIB_REQUESTS], got[MPIB_REQUESTS];
	uint32_t len[MPIB_REQUESTS];
	unsigned from; /* node that sends */
} end[ENDS];

static uint64_t place(unsigned c, unsigned req, bool receive)
{
	return (receive ? PAIR_RX : 0) +
	       ((uint64_t)c * MPIB_REQUESTS + req) * (64u << 10);
}

static void post(unsigned c, unsigned req, uint32_t len)
{
	struct pair_node *to = &pair.node[!end[c].from];
	struct pair_node *from = &pair.node[end[c].from];

	end[c].len[req] = len;
	pair_fill(from->mem + place(c, req, false), len, c + req + len);
	end[c].got[req] = pair_post(&end[c].rx, MPIB_OP_RECV, (uint8_t)req,
				    to->mr, place(c, req, true), len, 7);
	end[c].sent[req] = pair_post(&end[c].tx, MPIB_OP_SEND, (uint8_t)req,
				     from->mr, place(c, req, false), len, 7);
}

static void finish(unsigned c, unsigned req)
{
	uint32_t len = end[c].len[req];

	if (!end[c].got[req])
		return;
	assert_int_equal(
		pair_wait(&pair, &end[c].rx, (uint8_t)req, end[c].got[req]),
		len);
	assert_int_equal(
		pair_wait(&pair, &end[c].tx, (uint8_t)req, end[c].sent[req]),
		len);
	assert_memory_equal(pair.node[end[c].from].mem + place(c, req, false),
			    pair.node[!end[c].from].mem + place(c, req, true),
			    len);
	end[c].got[req] = 0;
}

static void run_traffic(void)
{
	unsigned at_once = 1 + (unsigned)draw(MPIB_REQUESTS / 2);
	uint32_t most = draw(4) ? 1024 : 64u << 10;

	for (unsigned i = 0; i < MESSAGES; i++) {
		/* Said here, for nothing else would end the requests. */
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

static void one_draw(unsigned seed)
{
	bool both_ways;

	dice = 0x9e3779b97f4a7c15ull * (seed + 1);
	if (!draw_settings())
		return;
	/* A failure is told without the seed. */
	print_message("seed %u:%s\n", seed, drawn);
	pair_open_on(&pair, &cfg.engine,
		     cfg.lanes == MPIB_LANES_PRIVATE ? MPIB_IMM_V1
						     : MPIB_IMM_V2,
		     MPIB_PATH_INTRA);
	ends = cfg.lanes == MPIB_LANES_PRIVATE ? 1 : ENDS;
	/* A node that only receives has nothing but CTS in its send queues. */
	both_ways = draw(2);
	for (unsigned c = 0; c < ends; c++) {
		end[c].from = both_ways && c == ENDS - 1;
		pair_connect(&pair, c, end[c].from, &end[c].tx, &end[c].rx);
	}
	run_traffic();
	pair_close(&pair);
}

static void what_is_not_refused_carries_traffic(void **state)
{
	for (unsigned i = 0; i < draws; i++)
		one_draw(first + i);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_refused_carries_traffic),
	};

	if (argc > 1)
		draws = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		first = (unsigned)strtoul(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
