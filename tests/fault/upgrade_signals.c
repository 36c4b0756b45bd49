/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade_signals [N [CASES]]: a proxy is upgraded under traffic, and at a stop of
 * one of its processes, of which there are two a system call, a signal comes to
 * it, and in some cases a second one some stops later. N such moments are drawn
 * for each signal and process, 0: every one of them. In the end one proxy serves
 * and its clients have noticed nothing, or none is left and they are told, as the
 * signals asked.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"
#include "traced.h"

#define HANG_MS 60000
#define MOVERS 2
#define APART 80 /* stops from a signal to a second one, at most */

static struct node node[2];
static struct mover mover[MOVERS];
static pthread_t thread; /* theirs */
static atomic_bool halt, cut; /* it is to end; one of them failed */
static atomic_uint_fast64_t moved; /* messages of each */
static char told[200]; /* why, once cut */
static unsigned points = 1, seed, runs;

/* Calls wait for a proxy that stands still, so who traces it makes none. */
static void *run_movers(void *arg)
{
	(void)arg;
	while (!atomic_load(&halt)) {
		uint64_t least = UINT64_MAX;

		for (unsigned i = 0; i < MOVERS; i++) {
			if (mover_step(&mover[i]) < 0) {
				snprintf(told, sizeof(told), "%s",
					 mpib_strerror());
				atomic_store(&cut, true);
				return NULL;
			}
			if (mover[i].messages < least)
				least = mover[i].messages;
		}
		atomic_store(&moved, least);
	}
	return NULL;
}

static void open_movers(void)
{
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_begin(&mover[i], node[i & 1].dir,
				       node[1 - (i & 1)].dir, 100000, false,
				       i));
	atomic_store(&halt, false);
	atomic_store(&cut, false);
	atomic_store(&moved, 0);
	assert_int_equal(pthread_create(&thread, NULL, run_movers, NULL), 0);
}

static void close_movers(void)
{
	atomic_store(&halt, true);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < MOVERS; i++) {
		assert_int_equal(mover[i].wrong, 0);
		mover_close(&mover[i]);
	}
}

static const char *const whom[] = { "first", "next", "both" };

static void fail_at(struct traced *s, const char *what)
{
	traced_tell(s);
	traced_tell_tasks(node[1].pid, "peer");
	traced_tell_tasks(getpid(), "test");
	for (unsigned i = 0; i < MOVERS; i++)
		printf("mover %u: stage %d, %llu messages\n", i,
		       (int)mover[i].stage,
		       (unsigned long long)mover[i].messages);
	traced_kill(s); /* the next test has the addresses */
	fail_msg("%s: %s of the %s at stop %lu of the %s%s%s%s%s (%u "
		 "processes, %s)",
		 what, strsignal(s->signo), whom[s->target], s->at,
		 traced_name[s->when], s->then ? ", then " : "",
		 s->then ? strsignal(s->then) : "", s->then ? " of the " : "",
		 s->then ? whom[s->then_target] : "", s->procs,
		 atomic_load(&cut) ? told : "its clients go on");
}

/* Until the traffic has gone on for a while after its last stop, or is over.
 * Whether it goes on. */
static bool outcome(struct traced *s)
{
	unsigned long long since = node_ms();
	uint64_t goal = UINT64_MAX;

	while (node_ms() - since < HANG_MS) {
		traced_turn(s);
		if (atomic_load(&cut))
			return false;
		/* The upgrade may be over before the stop that is waited for:
		 * no two are quite alike. */
		if (goal == UINT64_MAX && (s->sent || s->proc[0].role == GUARD))
			goal = atomic_load(&moved) + 40;
		if (atomic_load(&moved) >= goal)
			return true;
	}
	fail_at(s, "neither moves nor ends");
	return false;
}

static void until_ended(struct traced *s)
{
	unsigned long long since = node_ms();

	while (!traced_ended(s)) {
		traced_turn(s);
		if (node_ms() - since > HANG_MS)
			fail_at(s, "a process is left");
	}
}

static bool stops(int signo)
{
	return signo == SIGTERM || signo == SIGINT || signo == SIGKILL;
}

static bool is_killed(const struct traced *s)
{
	return s->signo == SIGKILL || s->then == SIGKILL;
}

/* A stop of the first process is one of all. */
static void judge(struct traced *s, bool alive)
{
	bool first = s->sent && stops(s->signo);
	bool then = s->then_sent && stops(s->then);
	bool must_end = (first && s->target != NEXT) ||
			(then && s->then_target != NEXT);
	bool may_end = first || then;

	/* Traffic may go on for a while after a word to stop. */
	for (unsigned long long since = node_ms();
	     alive && must_end && node_ms() - since < HANG_MS;) {
		traced_turn(s);
		alive = !atomic_load(&cut);
	}
	if (alive && must_end)
		fail_at(s, "the signal is lost");
	if (!alive && !may_end)
		fail_at(s, "a client was cut off");
	if (!alive) {
		until_ended(s);
		if (!is_killed(s) && s->proc[0].status)
			fail_at(s, "it ended with an error");
		if (!is_killed(s) && access(node[0].dir, F_OK) == 0)
			fail_at(s, "its run directory is left");
	}
}

static void stop(struct traced *s)
{
	s->signo = SIGTERM;
	s->target = FIRST;
	s->at = 0;
	s->then = 0;
	traced_send(s);
	judge(s, true);
}

/* From a fresh proxy to its end. */
static void run(struct traced *s)
{
	bool alive;

	node_again(&node[0]);
	open_movers();
	traced_begin(s, node[0].pid);
	kill(node[0].pid, SIGUSR2);
	alive = outcome(s);
	if (s->sent && !traced_all_sent(s))
		traced_send_then(s);
	judge(s, alive);
	if (!traced_ended(s))
		stop(s);
	close_movers();
	node_until_usage(&node[1], "clients", 0);
	runs++;
}

static void sweep_both(int signo, enum target target, int then,
		       enum target then_target)
{
	struct traced all = { .signo = SIGUSR2 };
	char line[64];

	run(&all);
	assert_int_equal(all.proc[0].role, GUARD);
	for (enum role r = GIVER; r < ROLES; r++)
		assert_true(all.count[r] > 0);
	for (enum role r = GIVER; r < ROLES; r++) {
		unsigned long step = points ? all.count[r] / points + 1 : 1;

		for (unsigned long at = 1 + (unsigned long)rand_r(&seed) % step;
		     at <= all.count[r]; at += step) {
			struct traced s = { .signo = signo,
					    .target = target,
					    .when = r,
					    .at = at,
					    .then = then,
					    .then_target = then_target };

			s.after = 1 + (unsigned long)rand_r(&seed) % APART;
			run(&s);
		}
	}
	snprintf(line, sizeof(line), "%lu, %lu and %lu", all.count[GIVER],
		 all.count[TAKER], all.count[GUARD]);
	printf("%s stops of giver, taker and guard\n", line);
}

static void sweep(int signo, enum target target)
{
	sweep_both(signo, target, 0, FIRST);
}

static void a_stop_ends_all(void **state)
{
	sweep(SIGTERM, FIRST);
}

/* Where nobody reads signals: from the last word of the old one until the guard
 * waits for them. */
static void a_stop_between_two_proxies_is_passed_on(void **state)
{
	struct traced all = { .signo = SIGUSR2 };

	run(&all);
	for (unsigned i = 0; i < 4 * (points ? points : 5); i++) {
		struct traced s = { .signo = SIGTERM,
				    .when = GIVER,
				    .freeze = true };

		s.at = all.count[GIVER] - (unsigned long)rand_r(&seed) % 12;
		run(&s);
	}
}

static void a_stop_of_the_whole_group_ends_all(void **state)
{
	sweep(SIGINT, BOTH);
}

static void a_kill_of_the_first_process_ends_all(void **state)
{
	sweep(SIGKILL, FIRST);
}

static void a_kill_of_the_new_one_harms_nobody_before_it_serves(void **state)
{
	sweep(SIGKILL, NEXT);
}

static void a_stop_of_the_new_one_is_definite(void **state)
{
	sweep(SIGTERM, NEXT);
}

/* Each pair in both orders. A hang-up of the terminal is ignored. */
static void two_signals_end_as_both_ask(void **state)
{
	static const struct {
		int signo;
		enum target target;
		int then;
		enum target then_target;
	} row[] = {
		{ SIGHUP, FIRST, SIGHUP, BOTH },
		{ SIGUSR2, FIRST, SIGHUP, FIRST },
		{ SIGUSR2, NEXT, SIGUSR2, FIRST },
		{ SIGTERM, FIRST, SIGTERM, FIRST },
		{ SIGTERM, FIRST, SIGINT, BOTH },
		{ SIGTERM, NEXT, SIGTERM, FIRST },
		{ SIGTERM, FIRST, SIGTERM, NEXT },
		{ SIGKILL, NEXT, SIGTERM, FIRST },
		{ SIGTERM, FIRST, SIGKILL, NEXT },
		{ SIGTERM, NEXT, SIGKILL, FIRST },
		{ SIGKILL, FIRST, SIGTERM, NEXT },
		{ SIGKILL, FIRST, SIGKILL, NEXT },
		{ SIGKILL, NEXT, SIGKILL, FIRST },
		{ SIGTERM, FIRST, SIGUSR2, FIRST },
		{ SIGUSR2, FIRST, SIGTERM, FIRST },
		{ SIGKILL, NEXT, SIGUSR2, FIRST },
		{ SIGUSR2, FIRST, SIGKILL, NEXT },
		{ SIGUSR2, FIRST, SIGUSR2, BOTH },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		sweep_both(row[i].signo, row[i].target, row[i].then,
			   row[i].then_target);
}

/* Who cannot write its pid where the guard would have looked for it. */
static void a_stop_needs_no_pid_file(void **state)
{
	struct traced s = { .signo = SIGTERM };
	char path[128];

	node_again(&node[0]);
	snprintf(path, sizeof(path), "%s/proxy.pid", node[0].dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/nowhere/at/all", path), 0);
	open_movers();
	traced_begin(&s, node[0].pid);
	kill(node[0].pid, SIGUSR2);
	assert_true(outcome(&s));
	assert_int_equal(s.proc[0].role, GUARD);
	stop(&s);
	close_movers();
}

static int begin(void **state)
{
	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 8 + i, "--log-level", "error",
			   "--failover-grace", "120000", NULL);
	kill(node[0].pid, SIGTERM);
	waitpid(node[0].pid, NULL, 0);
	return 0;
}

static int end(void **state)
{
	node_stop(&node[1]);
	node_again(&node[0]);
	node_stop(&node[0]);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_ends_all),
		cmocka_unit_test(a_stop_between_two_proxies_is_passed_on),
		cmocka_unit_test(a_stop_of_the_whole_group_ends_all),
		cmocka_unit_test(a_kill_of_the_first_process_ends_all),
		cmocka_unit_test(
			a_kill_of_the_new_one_harms_nobody_before_it_serves),
		cmocka_unit_test(a_stop_of_the_new_one_is_definite),
		cmocka_unit_test(two_signals_end_as_both_ask),
		cmocka_unit_test(a_stop_needs_no_pid_file),
	};
	int failed;

	if (argc > 1)
		points = (unsigned)atoi(argv[1]);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	seed = (unsigned)getpid();
	failed = cmocka_run_group_tests(tests, begin, end);
	printf("%u upgrades with a signal: %s\n", runs,
	       failed ? "FAILED" : "each ended as asked");
	return failed;
}
