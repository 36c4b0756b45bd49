/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link that goes down and up once a second, at either end of either rail in
 * turn, for as long as told, with the hold-down as it comes. No client may see
 * an error, and the rail may come back once a hold-down at most.
 *
 *   flap [-n seconds] [-d ms of hold-down]
 */
#include <stdio.h>
#include <unistd.h>

#include "arg.h"
#include "traffic.h"

#define PATIENCE_MS 600000
#define SPELL 60 /* seconds until it is another rail's turn */

static struct nodes nodes;
static struct traffic traffic;

static void run_for(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	/* Ten minutes of it should leave the machine to others. */
	while (now_ns() < end) {
		traffic_turn(&traffic, true);
		usleep(200);
	}
}

static void set_link(unsigned end, unsigned rail, bool up)
{
	struct mpib_soft_fault fault = { .link_down = !up };

	node_fault(&nodes.node[end], rail, &fault);
}

static uint64_t failbacks(unsigned rail)
{
	struct mpib_snapshot *s = node_snapshot(&nodes.node[0]);
	uint64_t n = s->rail[rail].failover.failbacks;

	mpib_snapshot_free(s);
	return n;
}

static void until_live(void)
{
	uint64_t end = now_ns() + PATIENCE_MS * MS;

	while (node_live(&nodes.node[0]) != 3 ||
	       node_live(&nodes.node[1]) != 3) {
		run_for(5 * MS);
		if (now_ns() > end)
			die("a rail does not come back");
	}
}

/* Returns how often the rail came back meanwhile. */
static uint64_t flap(unsigned end, unsigned rail, unsigned seconds,
		     unsigned hold_ms)
{
	uint64_t before = failbacks(rail), start = now_ns(), back, most;

	for (unsigned i = 0; i < seconds; i++) {
		set_link(end, rail, false);
		run_for(500 * MS);
		set_link(end, rail, true);
		run_for(500 * MS);
	}
	back = failbacks(rail) - before;
	most = (now_ns() - start) / MS / hold_ms;
	if (back > most)
		die("rail %u came back %llu times in %u s", rail,
		    (unsigned long long)back, seconds);
	until_live();
	return back;
}

int main(int argc, char **argv)
{
	unsigned seconds = 20;
	struct mpib_engine_config cfg;
	uint64_t back = 0;
	int opt;

	mpib_engine_config_init(&cfg);
	while ((opt = getopt(argc, argv, "n:d:")) != -1) {
		if (opt == 'n')
			seconds = arg_count(optarg);
		else if (opt == 'd')
			cfg.hold_ms = arg_count(optarg);
		else
			return 2;
	}
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	nodes_start(&nodes);
	for (unsigned i = 0, done = 0; done < seconds; i++) {
		unsigned now = seconds - done < SPELL ? seconds - done : SPELL;

		back += flap(i & 1, i >> 1 & 1, now, cfg.hold_ms);
		done += now;
	}
	while (!traffic_dry(&traffic))
		traffic_turn(&traffic, false);
	printf("%u flaps at 1 Hz: traffic came back to the rail %llu times "
	       "meanwhile (hold-down %u ms); %llu messages, 0 lost, doubled or "
	       "changed, 0 errors\n",
	       seconds, (unsigned long long)back, cfg.hold_ms,
	       (unsigned long long)traffic.messages);
	nodes_close(&nodes);
	return 0;
}
