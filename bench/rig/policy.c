/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of two rails each policy gets, for bench/policy: two engines in one
 * process, turned by hand, on rails that a fault point of the software HCA
 * holds to a rate. The rates are low, so that the machine is not the limit.
 *
 *   bench-policy NET SOUT SUP [SIZE [INFLIGHT]]   rates in MB/s
 *
 * Exit status 1 when adaptive has less than 90 % of the sum of both rails in
 * the second half of its first second, or less than 95 % of the best static
 * split afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/measure/snapshot.h"
#include "engine/shard.h"
#include "engine/split/policy.h"
#include "peers/args.h"
#include "peers/peer.h"
#include "rig/rig.h"
#include "verbs/soft/soft.h"

#define MS 1000000ull
#define MB 1e6
#define INFLIGHT_MAX MPIB_REQUESTS
#define STATIC_STEP 64

struct load {
	const char *net;
	uint64_t rate[MPIB_RAILS]; /* bytes per s */
	uint32_t size;
	unsigned inflight;
};

/* One policy under load. */
struct trial {
	struct rig_node node[2];
	const struct load *load;
	bool busy[INFLIGHT_MAX];
	uint64_t done; /* bytes received */
	uint64_t since;
};

static struct trial trial;

static void hold_to_rates(struct trial *t)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct mpib_soft_fault fault = {
			.rate_bytes_per_s = t->load->rate[r],
		};

		mpib_soft_set_fault(t->node[0].engine->shard[0].rail[r].ctx,
				    &fault);
	}
}

static void begin(struct trial *t, const struct load *l, enum mpib_mode mode,
		  uint32_t sup_bw, enum mpib_path path)
{
	static struct rig_card cards[2];
	struct mpib_engine_config cfg;
	bool more = true;

	memset(cards, 0, sizeof(cards));
	memset(t, 0, sizeof(*t));
	mpib_engine_config_init(&cfg);
	cfg.mode = (uint8_t)mode;
	cfg.sup_bw = sup_bw;
	t->load = l;
	for (unsigned i = 0; i < 2; i++)
		rig_open_as(&t->node[i], i, l->net, false, 1,
			    (size_t)l->size * l->inflight, cards, &cfg, path);
	while (more) {
		more = rig_connect(&t->node[0]);
		more |= rig_connect(&t->node[1]);
	}
	hold_to_rates(t);
	t->since = peer_ns();
}

static void end(struct trial *t)
{
	for (unsigned i = 0; i < 2; i++)
		rig_close(&t->node[i]);
}

static void step(struct trial *t)
{
	struct rig_end *tx = &t->node[0].tx[0], *rx = &t->node[1].rx[0];

	for (unsigned i = 0; i < t->load->inflight; i++) {
		uint64_t at = (uint64_t)i * t->load->size;

		if (t->busy[i] && (!rig_done(rx, i) || !rig_done(tx, i)))
			continue;
		t->done += t->busy[i] ? t->load->size : 0;
		t->busy[i] = true;
		rig_post(rx, MPIB_OP_RECV, i, at, t->load->size);
		rig_post(tx, MPIB_OP_SEND, i, at, t->load->size);
	}
	rig_turn(&t->node[0]);
	rig_turn(&t->node[1]);
}

/* The rate in bytes per s between from_ms and to_ms after the start. */
static double between(struct trial *t, uint64_t from_ms, uint64_t to_ms)
{
	uint64_t start, before, ns;

	while (peer_ns() - t->since < from_ms * MS)
		step(t);
	start = peer_ns();
	before = t->done;
	while (peer_ns() - t->since < to_ms * MS)
		step(t);
	ns = peer_ns() - start;
	return (double)(t->done - before) * 1e9 / (double)(ns ? ns : 1);
}

static double sum_of(const struct load *l)
{
	return (double)(l->rate[0] + l->rate[1]);
}

static void print(const struct load *l, const char *name, double bw,
		  const char *note)
{
	printf("%-24s %8.1f MB/s  %5.1f %% of the sum  %s\n", name, bw / MB,
	       bw * 100 / sum_of(l), note);
	fflush(stdout);
}

static double steady(const struct load *l, enum mpib_mode mode, uint32_t sup_bw,
		     enum mpib_path path)
{
	double bw;

	begin(&trial, l, mode, sup_bw, path);
	bw = between(&trial, 300, 800);
	end(&trial);
	return bw;
}

static double best_static(const struct load *l, uint32_t *best_share)
{
	uint32_t ratio = (uint32_t)(l->rate[MPIB_RAIL_SUP] * MPIB_SUP_BW_ALL /
				    (l->rate[0] + l->rate[1]));
	double best = 0;

	/* The last share tried is the ratio of the rates, which may lie
	 * between two steps. */
	for (uint32_t i = 0; i <= MPIB_SUP_BW_ALL / STATIC_STEP + 1; i++) {
		uint32_t share = i * STATIC_STEP <= MPIB_SUP_BW_ALL
					 ? i * STATIC_STEP
					 : ratio;
		double bw =
			steady(l, MPIB_MODE_STATIC, share, MPIB_PATH_UNKNOWN);

		if (bw > best) {
			best = bw;
			*best_share = share;
		}
	}
	return best;
}

struct counted {
	struct mpib_snapshot *snap;
	bool done;
};

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct counted *c = arg;

	c->snap = snap;
	c->done = true;
}

/* Print what a message cost the sending node, over the whole trial. */
static void print_economy(struct trial *t)
{
	double messages = (double)t->done / t->load->size;
	uint64_t wrs = 0, cqes = 0, posts = 0;
	struct counted c = { 0 };

	mpib_engine_snapshot(t->node[0].engine, on_snapshot, &c);
	while (!c.done)
		rig_turn(&t->node[0]);
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		wrs += c.snap->rail[r].n.tx_wrs;
		cqes += c.snap->rail[r].cqes;
		posts += c.snap->rail[r].posts;
	}
	printf("%-24s %.2f doorbells, %.2f WRs, %.2f CQEs\n",
	       "adaptive, per message", (double)posts / messages,
	       (double)wrs / messages, (double)cqes / messages);
	mpib_snapshot_free(c.snap);
}

static int run(const struct load *l)
{
	char note[64];
	uint32_t share = 0;
	double first, second, best;

	printf("SOUT %.1f MB/s, SUP %.1f MB/s, %u KiB messages, %u in "
	       "flight\n",
	       (double)l->rate[MPIB_RAIL_SOUT] / MB,
	       (double)l->rate[MPIB_RAIL_SUP] / MB, l->size >> 10, l->inflight);
	print(l, "vanilla, inter-island",
	      steady(l, MPIB_MODE_VANILLA, 0, MPIB_PATH_INTER), "");
	print(l, "vanilla, intra-island",
	      steady(l, MPIB_MODE_VANILLA, 0, MPIB_PATH_INTRA), "");
	print(l, "static 512/1024",
	      steady(l, MPIB_MODE_STATIC, 512, MPIB_PATH_UNKNOWN), "");
	best = best_static(l, &share);
	snprintf(note, sizeof(note), "at %u/1024", share);
	print(l, "best static", best, note);

	begin(&trial, l, MPIB_MODE_ADAPTIVE, 0, MPIB_PATH_UNKNOWN);
	print(l, "adaptive, 0 to 100 ms", between(&trial, 0, 100), "");
	print(l, "adaptive, 100 to 200 ms", between(&trial, 100, 200), "");
	first = between(&trial, 500, 1000);
	print(l, "adaptive, 0.5 to 1 s", first,
	      first >= 0.90 * sum_of(l) ? "" : "BELOW 90 %");
	second = between(&trial, 1000, 3000);
	snprintf(note, sizeof(note), "%.1f %% of the best static%s",
		 second * 100 / best,
		 second >= 0.95 * best ? "" : ", BELOW 95 %");
	print(l, "adaptive, 1 to 3 s", second, note);
	print_economy(&trial);
	end(&trial);
	return first < 0.90 * sum_of(l) || second < 0.95 * best;
}

int main(int argc, char **argv)
{
	struct load l = { .size = 256 << 10, .inflight = 8 };

	peer_args(argc, argv, 3, 5, "NET SOUT SUP [SIZE [INFLIGHT]]");
	l.net = argv[1];
	l.rate[MPIB_RAIL_SOUT] = (uint64_t)(peer_number("SOUT", argv[2]) * MB);
	l.rate[MPIB_RAIL_SUP] = (uint64_t)(peer_number("SUP", argv[3]) * MB);
	if (argc > 4)
		l.size = (uint32_t)peer_size("SIZE", argv[4], 1, 1 << 30);
	if (argc > 5)
		l.inflight = (unsigned)peer_size("INFLIGHT", argv[5], 1,
						 INFLIGHT_MAX);
	if (!l.rate[0] || !l.rate[1] || (double)l.rate[0] > UINT32_MAX * MB ||
	    (double)l.rate[1] > UINT32_MAX * MB)
		peer_wrong("rates are MB/s, up to %u", UINT32_MAX);
	return run(&l);
}
