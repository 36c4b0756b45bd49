/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure how soon a repaired rail carries bytes. The measured time begins at
 * the end of a fault and ends when the rail carries payload again, under
 * traffic and with default settings. Each round begins with new nodes, whose
 * rails have not failed.
 *
 * failback [-n rounds of each kind] [-m most ms]
 *
 * Exits with 1 if a round took longer than `most ms`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arg.h"
#include "traffic.h"

#define PATIENCE_MS 600000
#define ROUNDS_MAX 1000

static struct traffic traffic;
static struct nodes nodes;

static void run_for(uint64_t ns)
{
	for (uint64_t end = now_ns() + ns; now_ns() < end; usleep(100))
		traffic_turn(&traffic, true);
}

static void set_fault(unsigned end, unsigned rail, struct mpib_soft_fault fault)
{
	node_fault(&nodes.node[end], rail, &fault);
}

static uint64_t sent(unsigned rail)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 2; i++) {
		struct mpib_snapshot *s = node_snapshot(&nodes.node[i]);

		sum += s->rail[rail].n.tx_bytes;
		mpib_snapshot_free(s);
	}
	return sum;
}

static void until_out(unsigned rail)
{
	uint64_t end = now_ns() + PATIENCE_MS * MS;

	while (node_live(&nodes.node[0]) >> rail & 1 ||
	       node_live(&nodes.node[1]) >> rail & 1) {
		run_for(MS);
		if (now_ns() > end)
			die("rail %u does not fail", rail);
	}
}

/* Each of the next functions breaks a rail, repairs it, and returns the time of
 * the repair. */
static uint64_t link_down(unsigned end, unsigned rail)
{
	set_fault(end, rail, (struct mpib_soft_fault){ .link_down = 1 });
	until_out(rail);
	run_for(300 * MS);
	set_fault(end, rail, (struct mpib_soft_fault){ 0 });
	return now_ns();
}

static uint64_t link_flaps(unsigned end, unsigned rail)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < 5; i++) {
		at = link_down(end, rail);
		if (i < 4)
			run_for(300 * MS);
	}
	return at;
}

static uint64_t qp_killed(unsigned end, unsigned rail)
{
	uint64_t at = now_ns();

	if (!node_kill_qp(&nodes.node[end], rail, 0))
		die("rail %u has no QP", rail);
	until_out(rail);
	return at;
}

static uint64_t black_hole(unsigned end, unsigned rail)
{
	set_fault(end, rail, (struct mpib_soft_fault){ .black_hole = 1 });
	until_out(rail);
	/* Wait until several probes have failed. */
	run_for(6000 * MS);
	set_fault(end, rail, (struct mpib_soft_fault){ 0 });
	return now_ns();
}

static uint64_t round_of(uint64_t (*fault)(unsigned end, unsigned rail),
			 unsigned i)
{
	unsigned end = i & 1, rail = i >> 1 & 1;
	struct mpib_engine_config cfg;
	uint64_t at, before, took;

	mpib_engine_config_init(&cfg);
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	nodes_start(&nodes);
	run_for(100 * MS);
	at = fault(end, rail);
	before = sent(rail);
	while (sent(rail) == before) {
		run_for(MS);
		if (now_ns() - at > PATIENCE_MS * MS)
			die("rail %u does not come back", rail);
	}
	took = now_ns() - at;
	while (!traffic_dry(&traffic))
		traffic_turn(&traffic, false);
	nodes_close(&nodes);
	return took / MS;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static const struct {
	const char *name;
	uint64_t (*play)(unsigned end, unsigned rail);
} kinds[] = {
	{ "link down for 300 ms", link_down },
	{ "link down 5 times in 3 s", link_flaps },
	{ "QP killed", qp_killed },
	{ "black hole for 6 s", black_hole },
};

int main(int argc, char **argv)
{
	static uint64_t ms[ROUNDS_MAX];
	unsigned rounds = 4, most = 2000;
	uint64_t longest = 0;
	int opt;

	while ((opt = getopt(argc, argv, "n:m:")) != -1) {
		if (opt == 'n')
			rounds = arg_count(optarg);
		else if (opt == 'm')
			most = arg_count(optarg);
		else
			return 2;
	}
	if (rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (unsigned i = 0; i < rounds; i++)
			ms[i] = round_of(kinds[k].play, i);
		qsort(ms, rounds, sizeof(*ms), by_size);
		if (ms[rounds - 1] > longest)
			longest = ms[rounds - 1];
		printf("%s, %u times: the rail carries bytes again after p50 %llu, "
		       "max %llu ms\n",
		       kinds[k].name, rounds,
		       (unsigned long long)ms[rounds / 2],
		       (unsigned long long)ms[rounds - 1]);
		fflush(stdout);
	}
	printf("at most %u ms: %s\n", most,
	       longest <= most ? "met" : "NOT met");
	return longest > most;
}
