/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the surviving rail carries after the other one failed, against what it
 * carries alone: the same two nodes, the same traffic, first with the other
 * rail drained, then from 500 ms after its link went down, in turns. A fault
 * point holds each rail to a rate far below what the machine can do, so that
 * the rail is the limit and not the CPU.
 *
 *   rate [-n rounds] [-r MB/s] [-w ms a window] [-m per cent]
 *
 * A round counts when the rail alone came near its rate: in any other the
 * machine stood still. Of those that count n must reach the mark, within ten
 * times as many; 77 when none counted. The rate alone is the median of all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arg.h"
#include "traffic.h"

#define AFTER_MS 500u
#define ROUNDS_MAX 1000
#define FED 90 /* per cent of the rate held to */
#define SKIP 77

static struct nodes nodes;
static struct traffic traffic;
static unsigned window_ms = 500, rate_mb = 8;
static double solo[ROUNDS_MAX], left[ROUNDS_MAX];
static unsigned counted;

/* MB/s over a window. */
static double measure(void)
{
	uint64_t start = now_ns(), bytes = traffic.bytes;

	traffic_run_for(&traffic, window_ms * MS);
	return (double)(traffic.bytes - bytes) * 1e3 /
	       (double)(now_ns() - start);
}

static void set_drain(struct node *node, void *arg)
{
	mpib_engine_drain(node->engine, MPIB_RAIL_SUP, arg != NULL);
}

static void drain(bool on)
{
	for (unsigned i = 0; i < 2; i++)
		node_call(&nodes.node[i], set_drain, on ? &nodes : NULL);
	traffic_run_for(&traffic, 100 * MS);
}

static void set_link(unsigned end, unsigned rail, bool up)
{
	struct mpib_soft_fault fault = {
		.link_down = !up,
		.rate_bytes_per_s = rate_mb * 1000000ull,
	};

	node_fault(&nodes.node[end], rail, &fault);
}

static void round_of(unsigned end)
{
	double alone, after;

	drain(true);
	alone = measure();
	drain(false);
	set_link(end, MPIB_RAIL_SUP, false);
	traffic_run_for(&traffic, AFTER_MS * MS);
	after = measure();
	set_link(end, MPIB_RAIL_SUP, true);
	traffic_until_live(&traffic, &nodes);
	printf("SOUT alone %.1f MB/s, from %u ms after SUP failed %.1f MB/s\n",
	       alone, AFTER_MS, after);
	if (alone * 100 < (double)rate_mb * FED)
		return;
	solo[counted] = alone;
	left[counted++] = after;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *v)
{
	double sorted[ROUNDS_MAX] = { 0 };

	for (unsigned i = 0; i < counted; i++)
		sorted[i] = v[i];
	qsort(sorted, counted, sizeof(*sorted), by_size);
	return sorted[counted / 2];
}

/* Rounds at the mark. */
static unsigned reached(double mark)
{
	unsigned n = 0;

	for (unsigned i = 0; i < counted; i++)
		n += left[i] * 100 >= median(solo) * mark;
	return n;
}

int main(int argc, char **argv)
{
	unsigned rounds = 4, done = 0;
	struct mpib_engine_config cfg;
	double mark = 95;
	int opt;

	while ((opt = getopt(argc, argv, "n:r:w:m:")) != -1) {
		if (opt == 'n')
			rounds = arg_count(optarg);
		else if (opt == 'r')
			rate_mb = arg_count(optarg);
		else if (opt == 'w')
			window_ms = arg_count(optarg);
		else if (opt == 'm')
			mark = atof(optarg);
		else
			return 2;
	}
	if (rounds < 1 || rounds > ROUNDS_MAX / 10)
		return 2;
	mpib_engine_config_init(&cfg);
	cfg.hold_ms = 10;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	/* One way: CTS do not wait behind data then. */
	traffic_open(&traffic, &nodes, 1);
	traffic.fixed = 65536;
	traffic.unchecked = true;
	nodes_start(&nodes);
	for (unsigned i = 0; i < 4; i++)
		set_link(i & 1, i >> 1, true);
	traffic_run_for(&traffic, 100 * MS);
	while (done < 10 * rounds && (!counted || reached(mark) < rounds))
		round_of(done++ & 1);
	nodes_close(&nodes);
	if (!counted) {
		printf("SKIPPED: the machine does not feed a rail of %u MB/s\n",
		       rate_mb);
		return SKIP;
	}
	printf("surviving rail: median %.1f %% of its solo rate, %u of %u "
	       "rounds at %.0f %% or more (%u more did not count)\n",
	       100 * median(left) / median(solo), reached(mark), counted, mark,
	       done - counted);
	return reached(mark) < rounds;
}
