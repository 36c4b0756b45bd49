/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_kill [N]: N times, a client is killed at a random moment while it
 * attaches, registers memory, connects, moves messages or closes. Two other
 * clients must not notice the kills. Afterwards the proxies hold the same
 * resources as before: counted usage, QPs, descriptors, maps.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"

#define VICTIMS 4
#define WITNESSES 2
#define LIFE_US 30000

static struct node node[2];
static unsigned kills = 40;

/* The resources of a proxy, as reported by it and by the kernel. */
struct holdings {
	json_int_t attached, regions, registered, mapped, lanes, qps;
	unsigned fds, maps;
};

static unsigned lines(pid_t pid, const char *what, const char *with)
{
	char path[64], line[512];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, with) != NULL;
	fclose(f);
	return n;
}

static json_int_t sum_of(const struct node *n, const char *command,
			 const char *key)
{
	json_t *list = node_ask(n, command), *o;
	json_int_t sum = 0;
	size_t i;

	json_array_foreach(list, i, o) sum +=
		json_integer_value(json_object_get(o, key));
	json_decref(list);
	return sum;
}

static json_int_t count_of(const struct node *n, const char *command)
{
	json_t *list = node_ask(n, command);
	json_int_t count = (json_int_t)json_array_size(list);

	json_decref(list);
	return count;
}

static struct holdings look(const struct node *n)
{
	return (struct holdings){
		.attached = node_usage(n, "attached"),
		.regions = node_usage(n, "regions"),
		.registered = node_usage(n, "registered_bytes"),
		.mapped = node_usage(n, "mapped_bytes"),
		.lanes = count_of(n, "lanes"),
		.qps = sum_of(n, "rails", "qps"),
		.fds = proc_entries(n->pid, "fd"),
		.maps = lines(n->pid, "maps", "memfd:mpib"),
	};
}

static void say(const char *when, unsigned i, const struct holdings *h)
{
	printf("node %u %s: clients %lld, regions %lld, registered %lld, "
	       "mapped %lld, lanes %lld, QPs %lld, fds %u, maps %u\n",
	       i, when, (long long)h->attached, (long long)h->regions,
	       (long long)h->registered, (long long)h->mapped,
	       (long long)h->lanes, (long long)h->qps, h->fds, h->maps);
}

static void until_same(unsigned i, const struct holdings *before)
{
	unsigned long long until = node_ms() + 60000;
	struct holdings now;

	while (now = look(&node[i]), memcmp(&now, before, sizeof(now)) != 0) {
		if (node_ms() > until) {
			say("before", i, before);
			say("after ", i, &now);
			fail_msg(
				"node %u does not hold the same resources as before",
				i);
		}
		usleep(10000);
	}
	say("after ", i, &now);
}

/* Repeat everything that a client can do until this process is killed. */
static void live(unsigned seed)
{
	for (unsigned i = seed;; i++) {
		struct mover m;
		int rc = mover_begin(&m, node[i & 1].dir, node[i >> 1 & 1].dir,
				     4096u << i % 8, i & 4, i);

		for (unsigned n = 0; rc >= 0 && n < i % 16;) {
			rc = mover_step(&m);
			n += rc > 0;
		}
		if (rc < 0 || m.wrong) {
			fprintf(stderr, "victim: %s\n",
				m.wrong ? "wrong data" : mover_why(rc));
			_exit(1);
		}
		mover_close(&m);
	}
}

static pid_t bear(unsigned seed)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		live(seed);
	}
	return pid;
}

static void step_all(struct mover *m)
{
	for (unsigned i = 0; i < WITNESSES; i++) {
		if (mover_step(&m[i]) < 0)
			fail_msg("witness %u: %s", i, mpib_strerror());
	}
}

static void pass(struct mover *witness, unsigned long long us)
{
	unsigned long long until = node_ms() * 1000 + us;

	do {
		step_all(witness);
		usleep(20);
	} while (node_ms() * 1000 < until);
}

static void open_witnesses(struct mover *m)
{
	for (unsigned i = 0; i < WITNESSES; i++) {
		mover_must(mover_begin(&m[i], node[i].dir, node[1 - i].dir,
				       100000, i & 1, 77 + i));
	}
	for (unsigned i = 0; i < WITNESSES; i++)
		mover_must(mover_move(&m[i], 3));
}

/* Lanes remain when their connections are closed. So make the lanes from a node
 * to itself before its resources are counted. */
static void make_own_lanes(const struct node *n)
{
	struct mover m;

	mover_must(mover_begin(&m, n->dir, n->dir, 4096, true, 1));
	mover_close(&m);
	node_until_usage(n, "attached", 2);
}

TEST(killed_clients_leave_no_resources_and_affect_no_other_client)
{
	struct mover witness[WITNESSES];
	struct holdings before[2];
	pid_t victim[VICTIMS];
	uint64_t messages = 0;

	/* Use windows of the maximum size: a smaller window of a witness could
	 * grow during the test. */
	node_start(&node[0], 1, "--log-level", "warn", "--client-window",
		   "524288", NULL);
	node_start(&node[1], 2, "--log-level", "warn", "--client-window",
		   "524288", NULL);
	open_witnesses(witness);
	make_own_lanes(&node[0]);
	make_own_lanes(&node[1]);
	for (unsigned i = 0; i < 2; i++) {
		before[i] = look(&node[i]);
		say("before", i, &before[i]);
	}

	srand(4711);
	for (unsigned v = 0; v < VICTIMS; v++)
		victim[v] = bear(v * 1000);
	for (unsigned k = 0; k < kills; k++) {
		unsigned v = (unsigned)rand() % VICTIMS;

		pass(witness, (unsigned)rand() % LIFE_US);
		child_kill(victim[v]);
		victim[v] = bear((unsigned)rand() % 100000);
	}
	for (unsigned v = 0; v < VICTIMS; v++)
		child_kill(victim[v]);
	pass(witness, 100000);
	/* Wait: a staging window may return to its old size only between
	 * messages. */
	until_same(0, &before[0]);
	until_same(1, &before[1]);

	for (unsigned i = 0; i < WITNESSES; i++) {
		messages += witness[i].messages;
		assert_int_equal(witness[i].wrong, 0);
		mover_close(&witness[i]);
	}
	node_stop(&node[0]);
	node_stop(&node[1]);
	printf("%u clients killed: 0 leaked, %llu messages of witnesses, 0 "
	       "wrong\n",
	       kills + VICTIMS, (unsigned long long)messages);
}

unsigned *test_times = &kills;
