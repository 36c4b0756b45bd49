/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rails of two complete nodes fail at random under checked traffic. The seed
 * determines the rail, the end, the time and the kind (link down, black hole,
 * QP killed). Sometimes the other rail fails during the replay. No message may
 * be lost, doubled or changed. No client may see an error, and nothing may
 * hang.
 *
 *   storm [-n faults] [-s seed] [-c connections] [-p] [-a] [-m mode]
 *
 *   -p  private lanes
 *   -a  adaptive mode, in which most messages use one rail; without it each
 *       message uses both
 *   -m  how messages are spread over lanes: 0 split, 1 spray, 2 dqplb, 3 auto
 *
 * Fragments are small, so that most messages are spread over several QPs.
 *
 * Prints two histograms for each kind of fault. The first histogram has the
 * times until a fault was detected. The second histogram has the times until
 * every connection had completed a message that was posted after the fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arg.h"
#include "draw.h"
#include "engine/split/mode.h"
#include "rails.h"
#include "traffic.h"

#define BUCKETS 16

enum kind {
	KIND_DOWN,
	KIND_HOLE,
	KIND_KILL,
	KIND_BOTH, /* the other rail fails, too, during the failover */
	KINDS,
};

static const char *const kind_name[] = { "link down", "black hole", "QP killed",
					 "both rails" };

struct times {
	uint64_t *ns;
	unsigned n;
};

static struct times detect[KINDS], resume[KINDS];
static struct nodes nodes;
static struct traffic traffic;
static uint64_t rng;

static void add(struct times *t, uint64_t ns)
{
	t->ns = realloc(t->ns, (t->n + 1) * sizeof(*t->ns));
	t->ns[t->n++] = ns;
}

static double ms_at(const uint64_t *ns, size_t i)
{
	return (double)ns[i] / 1e6;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_times(const char *what, enum kind kind, struct times *t)
{
	unsigned bucket[BUCKETS] = { 0 };

	if (t->n == 0)
		return;
	qsort(t->ns, t->n, sizeof(*t->ns), by_size);
	for (unsigned i = 0; i < t->n; i++) {
		unsigned b = 0;

		while (b + 1 < BUCKETS && t->ns[i] >> b > MS / 2)
			b++;
		bucket[b]++;
	}
	printf("%-10s %-10s n %4u  p50 %7.2f  p99 %7.2f  max %7.2f ms |",
	       kind_name[kind], what, t->n, ms_at(t->ns, t->n / 2),
	       ms_at(t->ns, t->n * 99 / 100), ms_at(t->ns, t->n - 1));
	for (unsigned b = 0; b < BUCKETS; b++) {
		if (bucket[b])
			printf(" <%g:%u", 0.5 * (1u << b), bucket[b]);
	}
	printf("\n");
}

/* Return the time when the first of the two ends fenced the rail, or 0 if
 * neither did. */
static uint64_t detected(unsigned before, uint64_t since)
{
	uint64_t first = 0;

	if (nodes_fences(&nodes) == before)
		return 0;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t ns = atomic_load(&nodes.node[i].fenced_ns);

		if (ns > since && (!first || ns < first))
			first = ns;
	}
	return first;
}

static bool strike(enum kind kind, unsigned end, unsigned rail)
{
	struct mpib_soft_fault fault = { 0 };

	if (kind == KIND_KILL)
		return node_kill_qp(&nodes.node[end], rail,
				    (unsigned)draw(&rng, 16));
	fault.link_down = kind == KIND_DOWN;
	fault.black_hole = kind == KIND_HOLE;
	node_fault(&nodes.node[end], rail, &fault);
	return true;
}

static void heal(unsigned end, unsigned rail)
{
	static const struct mpib_soft_fault none;

	node_fault(&nodes.node[end], rail, &none);
}

/* Break one rail at one end. Check that messages continue over the other
 * rail. */
static void one_rail(enum kind kind)
{
	unsigned end = (unsigned)draw(&rng, 2), rail = (unsigned)draw(&rng, 2);
	unsigned before = nodes_fences(&nodes);
	uint64_t start = now_ns(), hit, back;

	if (!strike(kind, end, rail))
		return;
	traffic_mark(&traffic);
	back = traffic_until_marked(&traffic, kind_name[kind]);
	/* A fault without traffic has no effect, and so may never be detected.
	 * For example, a killed QP may have been idle. */
	hit = detected(before, start);
	if (hit) {
		add(&detect[kind], hit - start);
		add(&resume[kind], back > hit ? back - start : 0);
	}
	traffic_run_for(&traffic, draw(&rng, 20) * MS);
	heal(end, rail);
}

static void both_rails(void)
{
	unsigned end[2] = { (unsigned)draw(&rng, 2), (unsigned)draw(&rng, 2) };
	unsigned first = (unsigned)draw(&rng, 2);
	enum kind kind[2] = { (enum kind)draw(&rng, 3),
			      (enum kind)draw(&rng, 3) };
	uint64_t start;

	strike(kind[0], end[0], first);
	traffic_run_for(&traffic, draw(&rng, 150000) * 1000);
	strike(kind[1], end[1], !first);
	traffic_run_for(&traffic, draw(&rng, 300) * MS);
	heal(end[0], first);
	heal(end[1], !first);
	start = now_ns();
	traffic_mark(&traffic);
	add(&resume[KIND_BOTH],
	    traffic_until_marked(&traffic, "both rails") - start);
}

/* Check that each end received the bytes that the other end sent. Bytes that
 * were lost and replayed are subtracted. */
static void check_counts(void)
{
	struct mpib_snapshot *s[2] = { node_snapshot(&nodes.node[0]),
				       node_snapshot(&nodes.node[1]) };
	uint64_t lost = 0, stale = 0, count = 0, back = 0;

	for (unsigned i = 0; i < 2; i++) {
		for (unsigned r = 0; r < 2; r++) {
			const struct mpib_snap_rail *tx = &s[i]->rail[r];
			const struct mpib_snap_rail *rx = &s[!i]->rail[r];

			if (tx->n.tx_bytes - tx->failover.lost_bytes !=
			    rx->n.rx_bytes)
				die("node %u rail %u: sent %llu, of these lost "
				    "%llu, received %llu",
				    i, r, (unsigned long long)tx->n.tx_bytes,
				    (unsigned long long)tx->failover.lost_bytes,
				    (unsigned long long)rx->n.rx_bytes);
			if (tx->bad_imms)
				die("node %u rail %u: %llu bad imms", i, r,
				    (unsigned long long)tx->bad_imms);
			lost += tx->failover.lost_bytes;
			stale += tx->stale_imms;
			back += tx->failover.failbacks;
			for (unsigned c = 0; c < MPIB_CAUSES; c++)
				count += tx->failover.count[c];
		}
	}
	printf("fences %llu (counted at both ends), failbacks %llu, replayed %llu "
	       "bytes, stale %llu\n",
	       (unsigned long long)count, (unsigned long long)back,
	       (unsigned long long)lost, (unsigned long long)stale);
	for (unsigned i = 0; i < 2; i++)
		mpib_snapshot_free(s[i]);
}

static void blow(unsigned faults)
{
	traffic_run_for(&traffic, 50 * MS);
	for (unsigned i = 0; i < faults; i++) {
		enum kind kind = draw(&rng, 10) == 0 ? KIND_BOTH
						     : (enum kind)draw(&rng, 3);

		traffic_run_for(&traffic, draw(&rng, 20000) * 1000);
		if (kind == KIND_BOTH)
			both_rails();
		else
			one_rail(kind);
		if (draw(&rng, 3))
			traffic_until_live(&traffic, &nodes);
	}
	traffic_until_live(&traffic, &nodes);
	traffic_run_dry(&traffic, NULL);
}

int main(int argc, char **argv)
{
	unsigned faults = 30, conns = TRAFFIC_CONNS;
	struct mpib_engine_config cfg;
	bool private_lanes = false;
	int opt;

	rng = 1;
	mpib_engine_config_init(&cfg);
	while ((opt = getopt(argc, argv, "n:s:c:m:pa")) != -1) {
		if (opt == 'n')
			faults = arg_count(optarg);
		else if (opt == 's')
			rng = arg_count(optarg);
		else if (opt == 'c')
			conns = arg_count(optarg);
		else if (opt == 'm')
			cfg.spread = arg_count(optarg);
		else if (opt == 'p')
			private_lanes = true;
		else if (opt == 'a')
			cfg.mode = MPIB_MODE_ADAPTIVE;
		else
			return 2;
	}
	cfg.hold_ms = 10;
	cfg.frag = MPIB_FRAG_MIN;
	/* A QP that is killed while idle goes unnoticed. If the next fault hits
	 * the other rail, messages move to this QP and fail only after its
	 * timeout. This timeout must be shorter than HANG_MS. */
	cfg.timeout = TEST_RAIL_TIMEOUT;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, private_lanes);
	traffic_open(&traffic, &nodes, conns);
	traffic.seed = rng;
	nodes_start(&nodes);
	blow(faults);
	printf("%u faults, %llu messages, %llu bytes: 0 lost, 0 doubled, 0 "
	       "changed, 0 errors\n",
	       faults, (unsigned long long)traffic.messages,
	       (unsigned long long)traffic.bytes);
	for (enum kind k = 0; k < KINDS; k++) {
		print_times("detected", k, &detect[k]);
		print_times("resumed", k, &resume[k]);
	}
	check_counts();
	nodes_close(&nodes);
	return 0;
}
