/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What adaptive makes of two rails, for bench/policy: two engines in one
 * process, turned by hand, on rails that a fault point of the software HCA
 * holds to a rate. The rates are low, so that the machine is not the limit.
 *
 *   bench-policy NET SOUT SUP [SIZE [INFLIGHT]]   rates in MB/s
 *
 * Prints rows of a Markdown table, a mark each: what is wanted, what is. Exit
 * status 1 when a mark is missed.
 */
#include <stdio.h>
#include <string.h>

#include "engine/lane/lane.h"
#include "engine/shard.h"
#include "engine/split/mode.h"
#include "peers/args.h"
#include "peers/peer.h"
#include "rig/rig.h"
#include "verbs/soft/soft.h"

#define MS 1000000ull
#define MB 1e6
#define INFLIGHT_MAX MPIB_REQUESTS
#define WINDOWS 3
#define LARGE (4u << 20)
#define SMALL 1024u
#define SLOW_TURNS 64 /* the slower rail waits at most this many */

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
};

/* What was posted to the rails, so far. */
struct sent {
	uint64_t bytes[MPIB_RAILS], wrs;
};

static struct trial trial;
static bool missed;

static void set_rail(struct trial *t, unsigned r, uint64_t rate, unsigned turns)
{
	struct mpib_soft_fault fault = { .seed = 1,
					 .rate_bytes_per_s = rate,
					 .delay_turns = turns };

	mpib_soft_set_fault(t->node[0].engine->shard[0].rail[r].ctx, &fault);
}

static void begin(struct trial *t, const struct load *l, enum mpib_mode mode,
		  uint32_t sup_bw)
{
	static struct rig_card cards[2];
	struct mpib_engine_config cfg;
	bool more = true;

	memset(cards, 0, sizeof(cards));
	memset(t, 0, sizeof(*t));
	mpib_engine_config_init(&cfg);
	cfg.mode = (uint8_t)mode;
	cfg.sup_bw = sup_bw;
	cfg.qps[MPIB_RAIL_SOUT] = cfg.qps[MPIB_RAIL_SUP] = 1; /* as a proxy's */
	t->load = l;
	for (unsigned i = 0; i < 2; i++)
		rig_open_as(&t->node[i], i, l->net, false, 1,
			    (size_t)l->size * l->inflight, cards, &cfg,
			    MPIB_PATH_UNKNOWN);
	while (more) {
		more = rig_connect(&t->node[0]);
		more |= rig_connect(&t->node[1]);
	}
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		set_rail(t, r, l->rate[r], 0);
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

/* Go on for so long; returns bytes per s. */
static double run_ms(struct trial *t, uint64_t ms)
{
	uint64_t start = peer_ns(), before = t->done, ns;

	while (peer_ns() - start < ms * MS)
		step(t);
	ns = peer_ns() - start;
	return (double)(t->done - before) * 1e9 / (double)(ns ? ns : 1);
}

/* Continue until this many more messages have ended; returns bytes per s. */
static double run_messages(struct trial *t, uint64_t n)
{
	uint64_t start = peer_ns(), before = t->done, ns;

	while (t->done - before < n * t->load->size)
		step(t);
	ns = peer_ns() - start;
	return (double)(t->done - before) * 1e9 / (double)(ns ? ns : 1);
}

static struct sent sent(const struct trial *t)
{
	const struct mpib_shard *s = &t->node[0].engine->shard[0];
	struct sent sum = { 0 };

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		sum.bytes[r] = s->rail[r].n.n.tx_bytes;
		sum.wrs += s->rail[r].n.n.tx_wrs;
	}
	return sum;
}

/* SUP's percent of the bytes while it goes on for so long. */
static double part_ms(struct trial *t, uint64_t ms)
{
	struct sent from = sent(t), to;
	double sout, sup;

	run_ms(t, ms);
	to = sent(t);
	sout = (double)(to.bytes[MPIB_RAIL_SOUT] - from.bytes[MPIB_RAIL_SOUT]);
	sup = (double)(to.bytes[MPIB_RAIL_SUP] - from.bytes[MPIB_RAIL_SUP]);
	return sup * 100 / (sout + sup + 1);
}

/* SUP's percent by the rates. */
static double fair(const struct load *l)
{
	return (double)l->rate[MPIB_RAIL_SUP] * 100 /
	       (double)(l->rate[0] + l->rate[1]);
}

static void row(const struct load *l, const char *what, double least,
		double most, double is, const char *unit)
{
	bool ok = is >= least && is <= most;
	char rates[64] = "SOUT late";

	if (l->rate[0])
		snprintf(rates, sizeof(rates), "%.0f + %.0f MB/s",
			 (double)l->rate[MPIB_RAIL_SOUT] / MB,
			 (double)l->rate[MPIB_RAIL_SUP] / MB);
	printf("| %s, %u KiB x %u | %s | %.1f to %.1f | %.1f%s | %s |\n", rates,
	       l->size >> 10, l->inflight, what, least, most, is, unit,
	       ok ? "holds" : "MISSED");
	fflush(stdout);
	missed |= !ok;
}

/* How many messages the rails carry in a second, 16 or more. What is
 * compared is the time of whole messages: one of the large ones is a tenth
 * of a second. */
static uint64_t second(const struct load *l)
{
	uint64_t n = (l->rate[0] + l->rate[1]) / l->size;

	return n < 16 ? 16 : n;
}

static double static_bw(const struct load *l, uint32_t share, uint64_t messages)
{
	double bw;

	begin(&trial, l, MPIB_MODE_STATIC, share);
	run_messages(&trial, messages / 4);
	bw = run_messages(&trial, messages);
	end(&trial);
	return bw;
}

/* The static share that moves most: one near the rates' ratio. */
static uint32_t best_share(const struct load *l)
{
	int ratio = (int)(fair(l) * MPIB_SUP_BW_ALL / 100), found = ratio;
	double best = 0;

	for (int off = -64; off <= 64; off += 32) {
		int share = ratio + off < 0 ? 0 : ratio + off;
		double bw = static_bw(l, (uint32_t)share, second(l) / 4);

		if (bw > best) {
			best = bw;
			found = share;
		}
	}
	return (uint32_t)found;
}

/* The total beside the best static split, which has its turn before and after,
 * for a machine is not as fast in every second. */
static void against_static(const struct load *l, double least)
{
	uint32_t share = best_share(l);
	double before = static_bw(l, share, second(l)), bw;

	begin(&trial, l, MPIB_MODE_ADAPTIVE, 0);
	run_messages(&trial, 2 * second(l));
	bw = run_messages(&trial, 2 * second(l));
	end(&trial);
	before += static_bw(l, share, second(l));
	row(l, "total, of the best static split", least, 120, bw * 200 / before,
	    " %");
}

static void in_flight(const struct load *l)
{
	struct sent from, to;
	uint64_t before;

	begin(&trial, l, MPIB_MODE_ADAPTIVE, 0);
	run_ms(&trial, 1000);
	from = sent(&trial);
	before = trial.done;
	for (unsigned i = 0; i < WINDOWS; i++)
		row(l, "SUP's bytes, a second", fair(l) - 5, fair(l) + 5,
		    part_ms(&trial, 1000), " %");
	to = sent(&trial);
	row(l, "WRs a message", 0.9, 1.1,
	    (double)(to.wrs - from.wrs) * l->size /
		    (double)(trial.done - before),
	    "");
	end(&trial);
	against_static(l, l->rate[0] == l->rate[1] ? 98 : 95);
}

/* The faster rail falls to a quarter, and comes back. */
static void steps(const struct load *l)
{
	unsigned faster = l->rate[MPIB_RAIL_SUP] > l->rate[MPIB_RAIL_SOUT];
	struct load now = *l;

	begin(&trial, l, MPIB_MODE_ADAPTIVE, 0);
	run_ms(&trial, 1000);
	for (unsigned i = 0; i < 2; i++) {
		now.rate[faster] = l->rate[faster] / (i ? 1 : 4);
		set_rail(&trial, faster, now.rate[faster], 0);
		run_ms(&trial, 200);
		row(&now, "SUP's bytes, 200 ms after a step", fair(&now) - 5,
		    fair(&now) + 5, part_ms(&trial, 1000), " %");
	}
	end(&trial);
}

/* One at a time: the time that it takes is the inverse of the bandwidth. */
static void large(const struct load *l)
{
	struct load one = *l;

	one.size = LARGE;
	one.inflight = 1;
	against_static(&one, 95);
}

/* SOUT answers late. Its rate is not held: a rail has one fault of these. */
static void small(const struct load *l)
{
	struct load one = *l;
	double part;

	one.size = SMALL;
	one.inflight = 1;
	one.rate[0] = one.rate[1] = 0;
	begin(&trial, &one, MPIB_MODE_ADAPTIVE, 0);
	set_rail(&trial, MPIB_RAIL_SOUT, 0, SLOW_TURNS);
	run_ms(&trial, 1000);
	part = part_ms(&trial, 1000);
	end(&trial);
	row(&one, "small messages on the rail that answers sooner", 90, 99.999,
	    part, " %");
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
	in_flight(&l);
	steps(&l);
	large(&l);
	small(&l);
	return missed;
}
