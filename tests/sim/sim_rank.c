/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_rank.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim_first.h"
#include "sim_node.h"
#include "sim_wrap.h"

/* Initial maximum of a rank's pause between two polls. After polls without a
 * result, the maximum grows up to the plan's `look_most`, so that fewer steps
 * are needed to find a hang. */
#define LOOK_MOST (40 * SIM_US)
/* Number of failed attempts after which a rank retries less often. The rank's
 * proxy can need half a minute to start, for example because a device cannot be
 * opened yet. */
#define REFUSALS 1000

static const struct sim_plan *plan;
static struct sim_rank ranks[SIM_RANKS];
static struct sim_line lines[SIM_LINES];
static uint64_t began;

struct sim_rank *sim_rank(unsigned number)
{
	return &ranks[number];
}

bool sim_ranks_may_fail(void)
{
	return plan->hard;
}

bool sim_ranks_meet_quotas(void)
{
	return plan->quotas;
}

uint64_t sim_ranks_late(void)
{
	return plan->late;
}

uint64_t sim_ranks_began(void)
{
	return began;
}

bool sim_ranks_meet(enum sim_fault_kind kind)
{
	return sim_plan_has(plan, kind);
}

bool sim_ranks_resume(void)
{
	return plan->resumes;
}

uint64_t sim_rank_patience(unsigned refused)
{
	return (refused < REFUSALS ? 1 : 100) * SIM_MS;
}

static bool rank_attach(struct sim_rank *rank)
{
	struct mpib_attach_opts opts = {
		.size = sizeof(opts),
		.run_dir = sim_node_dir(rank->node),
		.name = rank->proc->name,
		.timeout_ms = 10000,
	};
	int rc = mpib_attach(&opts, &rank->client);

	if (rc == 0) {
		sim_first_client(rank->client);
		return true;
	}
	rank->client = NULL;
	sim_trace("does not attach: %s", mpib_strerror());
	if (!sim_ranks_may_fail() && !plan->resumes && rc != -ENOENT &&
	    rc != -ECONNREFUSED)
		sim_fail("rank %u does not attach: %s", rank->number,
			 mpib_strerror());
	return false;
}

/* The rank's proxy has ended. Fail all connections of the rank and detach. */
static void rank_lost(struct sim_rank *rank)
{
	for (unsigned i = 0; i < rank->ends; i++) {
		if (!rank->end[i].over)
			sim_end_fail(&rank->end[i], "the client", -EPIPE);
	}
	mpib_detach(rank->client);
	rank->client = NULL;
	rank->spare = rank->spare_region = NULL;
}

/* Register or deregister memory that no line uses. */
static void rank_churn(struct sim_rank *rank)
{
	struct mpib_client *c = rank->client;
	size_t size = 4096u + rank->number * 8192u;
	int rc;

	if (rank->spare) {
		if (rank->spare_region)
			mpib_dereg(rank->spare_region);
		mpib_mem_free(c, rank->spare);
		rank->spare = rank->spare_region = NULL;
		return;
	}
	rank->spare = mpib_mem_alloc(c, size);
	rc = rank->spare ? mpib_reg(c, rank->spare, size, &rank->spare_region)
			 : -ENOMEM;
	if (rc < 0 && !sim_ranks_may_fail() && mpib_alive(c) == 0)
		sim_fail("rank %u cannot allocate or register memory: %s",
			 rank->number, mpib_strerror());
}

static bool rank_step(struct sim_rank *rank, struct sim_rng *r, bool *moved)
{
	bool left = false;

	for (unsigned i = 0; i < rank->ends; i++) {
		struct sim_end *e = &rank->end[i];

		if (!e->over && rank->client)
			*moved |= sim_end_step(e, r);
		left |= !e->over;
	}
	return left;
}

static uint64_t look_most(unsigned idle)
{
	unsigned doubled = idle / plan->looks;
	uint64_t most = LOOK_MOST << (doubled < 16 ? doubled : 16);

	return most < plan->look_most ? most : plan->look_most;
}

static void rank_rest(unsigned idle, struct sim_rng *r)
{
	if (idle)
		sim_wait(sim_now + 200 + sim_draw(r, look_most(idle)));
	else
		sim_yield();
}

/* Wait before the next attempt to attach. If quotas can refuse the rank
 * forever, return false after SIM_REFUSALS attempts. */
static bool rank_waits(struct sim_rank *rank)
{
	rank->refused++;
	if (plan->quotas && rank->refused == SIM_REFUSALS)
		return false;
	sim_wait(sim_now + sim_rank_patience(rank->refused));
	return true;
}

static void rank_leave(struct sim_rank *rank, bool left)
{
	for (unsigned i = 0; left && i < rank->ends; i++)
		rank->end[i].line->given_up = true;
	if (rank->client)
		mpib_detach(rank->client);
	rank->client = NULL;
	sim_trace("has finished");
	__wrap__exit(EXIT_SUCCESS);
}

static void *run_rank(void *arg)
{
	struct sim_rank *rank = arg;
	struct sim_rng r;
	char subject[16];
	unsigned idle = 0;
	bool left = true;

	snprintf(subject, sizeof(subject), "rank %u", rank->number);
	sim_rng_seed(&r, plan->seed, subject);
	sim_wait(sim_now + sim_draw(&r, plan->starts));
	while (left) {
		bool moved = false;

		if (!rank->client && !rank_attach(rank)) {
			if (!rank_waits(rank))
				break;
			continue;
		}
		left = rank_step(rank, &r, &moved);
		if (plan->churn && sim_chance(&r, 50))
			rank_churn(rank);
		if (mpib_alive(rank->client) < 0 && left) {
			if (!plan->hard)
				sim_fail("rank %u lost its proxy",
					 rank->number);
			rank_lost(rank);
			continue;
		}
		idle = moved ? 0 : idle + 1;
		rank_rest(idle, &r);
	}
	rank_leave(rank, left);
	return NULL;
}

static void add_end(unsigned rank, struct sim_line *line, bool sends)
{
	struct sim_rank *r = &ranks[rank];
	struct sim_end *e = &r->end[r->ends++];

	*e = (struct sim_end){ .line = line, .rank = r, .sends = sends };
	if (sends)
		line->sends = e;
	else
		line->receives = e;
}

void sim_ranks_start(const struct sim_plan *p)
{
	char name[16];

	plan = p;
	began = sim_now;
	for (unsigned i = 0; i < plan->lines; i++) {
		lines[i] = (struct sim_line){ .plan = &plan->line[i],
					      .number = i };
		add_end(plan->line[i].from, &lines[i], true);
		add_end(plan->line[i].to, &lines[i], false);
	}
	for (unsigned i = 0; i < plan->ranks; i++) {
		snprintf(name, sizeof(name), "rank%u", i);
		ranks[i].number = i;
		ranks[i].node = plan->rank_node[i];
		ranks[i].proc =
			sim_proc_new(name, ranks[i].node, plan->rank_uid[i]);
		sim_task_new(ranks[i].proc, name, run_rank, &ranks[i]);
	}
}

bool sim_ranks_over(void)
{
	if (!plan)
		return false; /* the faults have not begun */
	for (unsigned i = 0; i < plan->ranks; i++) {
		if (!ranks[i].proc->over)
			return false;
	}
	return true;
}

void sim_rank_kill(unsigned number)
{
	struct sim_rank *r = &ranks[number];

	if (r->proc->over)
		return;
	for (unsigned i = 0; i < r->ends; i++)
		r->end[i].line->given_up = true;
	sim_proc_end(r->proc, SIGKILL);
}

uint64_t sim_rank_messages(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < plan->lines; i++)
		n += lines[i].messages;
	return n;
}

uint64_t sim_rank_bytes(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < plan->lines; i++)
		n += lines[i].bytes;
	return n;
}

uint64_t sim_rank_failures(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < plan->lines; i++)
		n += lines[i].failures;
	return n;
}

void sim_ranks_print(void)
{
	for (unsigned i = 0; i < plan->ranks; i++) {
		const struct sim_rank *r = &ranks[i];

		if (r->proc->over)
			continue;
		fprintf(stderr, "rank %u on node %u: %s\n", i, r->node,
			r->client ? "attached" : "not attached");
		for (unsigned k = 0; k < r->ends; k++) {
			const struct sim_end *e = &r->end[k];

			if (e->over)
				continue;
			fprintf(stderr,
				"  line %u: %s, connection %u %s; posted %llu, "
				"done %llu of %u\n",
				e->line->number,
				e->sends ? "sends" : "receives", e->life,
				e->ready  ? "ready"
				: e->open ? "opens"
					  : "closed",
				(unsigned long long)e->posted,
				(unsigned long long)e->done,
				e->line->plan->messages);
		}
	}
}
