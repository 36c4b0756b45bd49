/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"

#include <stdio.h>

#define LARGE (128u << 10)
#define SOUT MPIB_RAIL_SOUT
#define SUP MPIB_RAIL_SUP
/* Adaptive mode says what it aims at; a batch may miss that by so many parts of
 * 1024. */
#define NEARLY 384u
#define BATCH 8 /* windows of messages */

struct nodes nodes;
struct traffic traffic;
struct statement_state state;

static void turn(bool posting)
{
	traffic_turn(&traffic, posting);
	for (unsigned i = 0; i < 2; i++) {
		mpib_shard_turn(&nodes.node[i].engine->shard[0]);
		mpib_loop_turn(&nodes.node[i].loop, 0);
	}
}

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	*(struct mpib_snapshot **)arg = snap;
}

/* What is said, and what the rails have sent so far. */
struct seen {
	struct mpib_split_why why;
	uint64_t sent[MPIB_RAILS], wrs;
};

static struct seen look(void)
{
	struct mpib_snapshot *snap = NULL;
	struct seen s = { 0 };

	if (mpib_engine_snapshot(nodes.node[0].engine, on_snapshot, &snap) < 0)
		die("no snapshot");
	while (!snap)
		turn(false);
	s.why = snap->conn[0].why;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		s.sent[r] = snap->rail[r].n.tx_bytes;
		s.wrs += snap->rail[r].n.tx_wrs;
	}
	mpib_snapshot_free(snap);
	return s;
}

void until(bool (*is)(unsigned rail), unsigned rail)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!is(rail)) {
		turn(true);
		if (now_ns() > end)
			die("%s, %s: it does not come to that", state.mode,
			    state.name);
	}
}

static void run_dry(void)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!traffic_dry(&traffic)) {
		turn(false);
		if (now_ns() > end)
			die("%s, %s: messages do not end", state.mode,
			    state.name);
	}
}

/* Messages of one size; returns how many. */
static unsigned move(uint32_t size, unsigned windows)
{
	uint64_t before = traffic.messages;

	traffic.fixed = size;
	for (unsigned i = 0; i < windows; i++) {
		turn(true);
		run_dry();
	}
	return (unsigned)(traffic.messages - before);
}

static void expect_moved(const struct mpib_split_why *said,
			 const struct seen *was, const struct seen *is,
			 unsigned n)
{
	uint64_t sup = is->sent[SUP] - was->sent[SUP],
		 sum = sup + is->sent[SOUT] - was->sent[SOUT];
	uint64_t want = (uint64_t)n * mpib_sup_bytes(said->sup_bw, LARGE);
	uint64_t off = sup > want ? sup - want : want - sup, most = 0;

	if (said->source == MPIB_SPLIT_ADAPTIVE)
		most = sum * NEARLY / MPIB_SUP_BW_ALL;
	if (sum != (uint64_t)n * LARGE || off > most)
		die("%s, %s: why says %u of 1024 by %s, and of %llu bytes %llu "
		    "went over SUP",
		    state.mode, state.name, said->sup_bw,
		    mpib_split_source_name(said->source),
		    (unsigned long long)sum, (unsigned long long)sup);
}

/* Those that why leaves out are not cut. */
static void expect_whole(uint32_t size)
{
	for (unsigned i = 0; i < 8; i++) {
		uint64_t was = look().wrs;
		unsigned n = move(size, 1);

		if (look().wrs - was != n)
			die("%s, %s: a message of %u bytes is cut", state.mode,
			    state.name, size);
	}
}

void expect(enum mpib_split_source source)
{
	bool adaptive = source == MPIB_SPLIT_ADAPTIVE;
	struct seen was, is;
	uint64_t most;
	unsigned n;

	run_dry();
	was = look();
	most = now_ns() - state.since;
	if (was.why.source != source)
		die("%s, %s: why names %s, not %s", state.mode, state.name,
		    mpib_split_source_name(was.why.source),
		    mpib_split_source_name(source));
	if (was.why.age_ns > most)
		die("%s, %s: an age of %llu ms, and it is %llu ms old at most",
		    state.mode, state.name,
		    (unsigned long long)(was.why.age_ns / MS),
		    (unsigned long long)(most / MS));
	n = move(LARGE, adaptive ? BATCH : 1);
	is = look();
	expect_moved(adaptive ? &is.why : &was.why, &was, &is, n);
	/* Nothing state.since: it is as old as before, and older. */
	if (!adaptive && is.why.age_ns < was.why.age_ns)
		die("%s, %s: the age goes back", state.mode, state.name);
	if (was.why.small)
		expect_whole(was.why.small);
	state.count++;
}

void change(const char *to)
{
	state.name = to;
	state.since = now_ns();
}

void change_of(unsigned rail, const char *to)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s %s", mpib_rail_name(rail), to);
	change(text);
}
