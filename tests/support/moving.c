/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic between two nodes while a test changes the nodes, see moving.h. */
#include "moving.h"

#include <stdio.h>

#include "test.h"

static const char *stage_of(const struct mover *m)
{
	static const char *const name[] = { "idle", "posted", "flying",
					    "flushing" };

	return name[m->stage];
}

static void say_mover(const char *what, unsigned i, const struct mover *m)
{
	fprintf(stderr,
		"%s %u from node %u: %llu messages, %s, %zu bytes%s%s\n", what,
		i, i & 1, (unsigned long long)m->messages, stage_of(m), m->size,
		m->sent ? ", sending" : "", m->received ? ", receiving" : "");
}

static void say_grouper(unsigned i, const struct grouper *g)
{
	fprintf(stderr,
		"grouper %u: %u of %d sends posted, still in flight:", i,
		g->posted, GROUPER_N);
	for (unsigned k = 0; k < GROUPER_N; k++) {
		if (g->sent[k])
			fprintf(stderr, " %u", k);
	}
	fprintf(stderr, "%s\n", g->received ? " and the receive" : "");
	say_mover("grouper", i, &g->m);
}

/* Print the output of an mpibctl command, even if the node does not answer. */
static void say_node(const struct node *n, const char *command, const char *arg)
{
	const char *argv[] = { "mpibctl", "-s", n->dir, command, arg, NULL };
	static struct run run;

	run_wait(&run, argv);
	fprintf(stderr, "node at %s, %s:\n%s%s", n->sout, command, run.out,
		run.err);
}

/* After a hang, print the state of the movers and of both nodes. */
static void say_all(const struct moving *m)
{
	static const struct {
		const char *command, *arg;
	} ask[] = {
		{ "rails", NULL }, { "lanes", NULL }, { "peers", NULL },
		{ "stuck", "1" },  { "why", NULL },   { "events", NULL },
	};

	for (unsigned i = 0; i < MOVING_SINGLE; i++)
		say_mover("mover", i, &m->single[i]);
	for (unsigned i = 0; i < MOVING_GROUPED; i++)
		say_grouper(i, &m->grouped[i]);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < sizeof(ask) / sizeof(ask[0]); k++)
			say_node(&m->node[i], ask[k].command, ask[k].arg);
	}
}

/* Open mover number `i`. Half of the movers send from the first node. Half of
 * each node's movers use ordinary memory, and thus staging windows. */
static void open_one(struct mover *m, const struct node node[2], unsigned i)
{
	mover_must(mover_begin(m, node[i & 1].dir, node[1 - (i & 1)].dir,
			       400000, i & 2, i));
}

void moving_start(struct moving *m, struct node node[2], unsigned n,
		  const char *const *args)
{
	const char *all[16] = { "--log-level", "error" };

	for (unsigned i = 0; args[i]; i++) {
		assert_true(i + 3 < sizeof(all) / sizeof(all[0]));
		all[i + 2] = args[i];
	}
	for (unsigned i = 0; i < 2; i++)
		node_start_with(&node[i], n + i, all);
	memset(m, 0, sizeof(*m));
	m->node = node;
	for (unsigned i = 0; i < MOVING_SINGLE; i++)
		open_one(&m->single[i], node, i);
	for (unsigned i = 0; i < MOVING_GROUPED; i++)
		open_one(&m->grouped[i].m, node, i);
	moving_by(m, 3);
}

/* Make one step of each mover. */
static void turn(struct moving *m)
{
	for (unsigned i = 0; i < MOVING_SINGLE; i++) {
		if (mover_step(&m->single[i]) < 0)
			fail_msg("mover %u: %s", i, mpib_strerror());
	}
	for (unsigned i = 0; i < MOVING_GROUPED; i++) {
		if (grouper_step(&m->grouped[i]) < 0)
			fail_msg("grouper %u: %s", i, mpib_strerror());
	}
}

static void until(struct moving *m, const struct mover *one, uint64_t messages,
		  unsigned long long since)
{
	while (one->messages < messages) {
		turn(m);
		if (node_ms() - since <= MOVING_HANG_MS)
			continue;
		say_all(m);
		fail_msg("message %llu of seed %llu did not arrive",
			 (unsigned long long)one->messages,
			 (unsigned long long)one->seed);
	}
}

void moving_by(struct moving *m, uint64_t messages)
{
	unsigned long long since = node_ms();
	uint64_t goal[MOVING_SINGLE + MOVING_GROUPED];

	for (unsigned i = 0; i < MOVING_SINGLE; i++)
		goal[i] = m->single[i].messages + messages;
	for (unsigned i = 0; i < MOVING_GROUPED; i++)
		goal[MOVING_SINGLE + i] = m->grouped[i].m.messages + messages;
	for (unsigned i = 0; i < MOVING_SINGLE; i++)
		until(m, &m->single[i], goal[i], since);
	for (unsigned i = 0; i < MOVING_GROUPED; i++)
		until(m, &m->grouped[i].m, goal[MOVING_SINGLE + i], since);
}

void moving_end(struct moving *m, struct node node[2])
{
	uint64_t wrong = 0;

	for (unsigned i = 0; i < MOVING_SINGLE; i++) {
		wrong += m->single[i].wrong;
		mover_close(&m->single[i]);
	}
	for (unsigned i = 0; i < MOVING_GROUPED; i++) {
		wrong += m->grouped[i].m.wrong;
		mover_close(&m->grouped[i].m);
	}
	assert_int_equal(wrong, 0);
	for (unsigned i = 0; i < 2; i++) {
		node_until_usage(&node[i], "clients", 0);
		node_until_usage(&node[i], "mapped_bytes", 0);
		node_until_usage(&node[i], "regions", 0);
		node_stop(&node[i]);
	}
}

void moving_until(struct moving *m, struct run *run, unsigned n)
{
	unsigned long long since = node_ms();
	unsigned left = (1u << n) - 1;

	while (left) {
		for (unsigned i = 0; i < n; i++) {
			if (left >> i & 1 && run_over(&run[i]))
				left &= ~(1u << i);
		}
		turn(m);
		if (node_ms() - since <= MOVING_HANG_MS)
			continue;
		say_all(m);
		fail_msg("a command hangs");
	}
}
