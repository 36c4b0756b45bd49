/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [-n seeds] [-f first seed] [-v] [-w]: runs the world once per seed. Every
 * message has to end once at both ends, in order, with all of its data and
 * nothing written or read after its buffers were handed back; nobody may hang.
 * A seed that fails is named, and fails the same way each time. With -w sends
 * end when they are acknowledged, and what a device forgot is found wrong.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arg.h"
#include "sim.h"

#define STEPS 40000
#define FAULTS 5

static void begin(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->rng = seed;
	w->faults = 1 + (unsigned)sim_draw(w, FAULTS);
	for (unsigned m = 0; m < MESSAGES; m++)
		w->ops[m] = 1 + (unsigned)sim_draw(w, PIECES);
	for (unsigned e = 0; e < 2; e++) {
		for (unsigned r = 0; r < RAILS; r++) {
			mpib_fence_init(&w->end[e].fence[r], true);
			sim_qp_make(w, e, r, 0);
			w->end[e].open[r] = true;
		}
	}
}

static void down(struct world *w, unsigned e, unsigned r)
{
	w->hurt[r][e] = w->down[r][e] = true;
	sim_health(w, e, r, false);
}

static bool strike(struct world *w)
{
	unsigned e = (unsigned)sim_draw(w, 2), r = (unsigned)sim_draw(w, RAILS);

	if (w->faults == 0 || w->hurt[r][e] || sim_draw(w, 40))
		return false;
	w->faults--;
	switch (sim_draw(w, 4)) {
	case 0:
		sim_qp_error(w, e, r);
		break;
	case 1:
		w->hurt[r][e] = true;
		break;
	case 2:
		w->forgets[r][e] = true;
		break;
	default:
		down(w, e, r);
	}
	return true;
}

/* What it acknowledged is gone with it. */
static bool die(struct world *w)
{
	unsigned e = (unsigned)sim_draw(w, 2), r = (unsigned)sim_draw(w, RAILS);

	if (!w->forgets[r][e] || w->hurt[r][e] || sim_draw(w, 20))
		return false;
	w->forgets[r][e] = false;
	down(w, e, r);
	return true;
}

static bool heal(struct world *w)
{
	unsigned e = (unsigned)sim_draw(w, 2), r = (unsigned)sim_draw(w, RAILS);

	if (!w->hurt[r][e] || sim_draw(w, 30))
		return false;
	w->hurt[r][e] = false;
	if (w->down[r][e]) {
		w->down[r][e] = false;
		sim_health(w, e, r, true);
	}
	return true;
}

static void step(struct world *w)
{
	unsigned e = (unsigned)sim_draw(w, 2), r = (unsigned)sim_draw(w, RAILS);

	switch (sim_draw(w, 16)) {
	case 0:
	case 1:
	case 2:
		sim_deliver(w, e, r);
		break;
	case 3:
	case 4:
	case 5:
		sim_poll(w, e, r);
		break;
	case 6:
	case 7:
		sim_work(w, e);
		break;
	case 8:
		sim_shard_note(w, e);
		break;
	case 9:
		sim_control_note(w, e);
		break;
	case 10:
	case 11:
		sim_peer_note(w, e);
		break;
	case 12:
		sim_hold_over(w, e, r);
		break;
	case 13:
		if (sim_draw(w, 8) == 0)
			sim_watchdog(w, e, r);
		break;
	case 14:
		if (sim_draw(w, 64) == 0)
			sim_probe_late(w, e, r);
		break;
	default:
		if (!strike(w) && !die(w))
			heal(w);
	}
}

static bool over(const struct world *w)
{
	return w->tail == MESSAGES && w->reported == MESSAGES;
}

static const char *run(struct world *w, uint64_t seed, bool wire)
{
	begin(w, seed);
	w->wire = wire;
	for (unsigned i = 0; i < STEPS; i++) {
		step(w);
		if (w->wrong)
			return w->wrong;
		if (over(w))
			return NULL;
	}
	return "it hangs";
}

int main(int argc, char **argv)
{
	unsigned long seeds = 5000, first = 1, bad = 0, replays = 0, stale = 0,
		      forgotten = 0;
	bool verbose = false, wire = false;
	struct world *w = malloc(sizeof(*w));
	int opt;

	while ((opt = getopt(argc, argv, "n:f:vw")) != -1) {
		if (opt == 'n')
			seeds = arg_number(optarg, UINT64_MAX);
		else if (opt == 'f')
			first = arg_number(optarg, UINT64_MAX);
		else if (opt == 'v')
			verbose = true;
		else if (opt == 'w')
			wire = true;
		else
			return 2;
	}
	for (unsigned long s = first; s < first + seeds && bad < 10; s++) {
		const char *why = run(w, s, wire);

		replays += w->replays;
		stale += w->stale;
		forgotten += w->forgotten;
		if (!why)
			continue;
		bad++;
		printf("seed %lu: %s\n", s, why);
		for (unsigned e = 0; verbose && e < 2; e++) {
			for (unsigned r = 0; r < RAILS; r++)
				printf("  end %u rail %u: %s epoch %u open %d "
				       "hurt %d\n",
				       e, r,
				       mpib_fence_state_name(
					       w->end[e].fence[r].state),
				       w->end[e].fence[r].epoch,
				       w->end[e].open[r], w->hurt[r][e]);
		}
		if (verbose)
			printf("  sent %u reported %u tail %u announced %u\n",
			       w->sent, w->reported, w->tail, w->announced);
	}
	printf("%lu seeds, %lu violations, %lu replays, %lu stale, %lu "
	       "acknowledged and forgotten\n",
	       seeds, bad, replays, stale, forgotten);
	free(w);
	return bad > 0;
}
