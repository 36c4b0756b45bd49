/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade [N]: two proxies, N times one of them is replaced while checked
 * messages go both ways between them. No call fails, nothing is lost, doubled
 * or changed, and a new program that does not come up harms nobody.
 *
 * The program is its own bad example: started as a proxy that should take over,
 * it is bad.h's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arg.h"
#include "bad.h"
#include "moving.h"
#include "test.h"

static struct node node[2];
static struct moving moving;
static unsigned upgrades = 6;
static char self[256];

/* Begun, moved meanwhile, and ended; *run says how. */
static void upgrade(struct run *run, const struct node *n, const char *path)
{
	moving_upgrade_begin(run, n, path);
	moving_until(&moving, run, 1);
}

static double number(const char *json, const char *key)
{
	json_t *data = json_loads(json, 0, NULL);
	double value = json_number_value(json_object_get(data, key));

	json_decref(data);
	return value;
}

static int start(void **state)
{
	static const char *const args[] = { "--failover-grace", MOVING_GRACE_MS,
					    NULL };

	moving_start(&moving, node, 5, args);
	return 0;
}

static int stop(void **state)
{
	moving_end(&moving, node);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void say(double *ms, unsigned n)
{
	static const double edge[] = { 5, 10, 20, 50, 100, 250, 1000 };
	unsigned at = 0;

	qsort(ms, n, sizeof(*ms), by_value);
	printf("%u upgrades under traffic: 0 errors, 0 wrong\n", n);
	printf("traffic stood still: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n",
	       ms[n / 2], ms[n * 99 / 100], ms[n - 1]);
	for (unsigned e = 0; e < sizeof(edge) / sizeof(edge[0]); e++) {
		unsigned from = at;

		while (at < n && ms[at] <= edge[e])
			at++;
		if (at > from)
			printf("up to %.0f ms: %u\n", edge[e], at - from);
	}
	if (at < n)
		printf("longer: %u\n", n - at);
}

static void traffic_goes_on_over_upgrades(void **state)
{
	double *ms = calloc(upgrades, sizeof(*ms));
	struct run run;

	assert_non_null(ms);
	for (unsigned i = 0; i < upgrades; i++) {
		/* Each twice in a row. */
		upgrade(&run, &node[i / 2 % 2], NULL);
		if (run.status)
			fail_msg("upgrade %u: %s", i, run.err);
		ms[i] = number(run.out, "blackout_s") * 1000;
		assert_true(ms[i] > 0);
		moving_by(&moving, 2);
	}
	say(ms, upgrades);
	free(ms);
}

static void expect_refusal(const char *path, const char *why)
{
	struct run run;

	upgrade(&run, &node[0], path);
	assert_int_equal(run.status, 1);
	if (!strstr(run.err, why))
		fail_msg("\"%s\" and not \"%s\"", run.err, why);
	moving_by(&moving, 2);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void a_program_that_is_none_of_ours_harms_nobody(void **state)
{
	expect_refusal("/bin/true", "before it was ready");
	expect_refusal("/nowhere/mpib-proxy", "No such file");
	expect_refusal("/etc/passwd", "Permission denied");
}

static void a_configuration_that_is_wrong_harms_nobody(void **state)
{
	write_file(node[0].conf, "[lanes]\nsuot = 1\n");
	expect_refusal(NULL, "lanes");
	write_file(node[0].conf, "[run]\nthreads = 3\n");
	expect_refusal(NULL, "threads");
	write_file(node[0].conf, "");
}

static void say_to(const char *command)
{
	json_decref(node_ask(&node[0], command));
}

static void bad_until(const char *how, const char *why)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/bad", node[0].base);
	write_file(path, how);
	expect_refusal(self, why);
	assert_int_equal(unlink(path), 0);
}

static void one_that_dies_on_the_way_harms_nobody(void **state)
{
	bad_until("base", "before it was ready");
	bad_until("ready", "ended");
	bad_until("clients", "ended");
	bad_until("mapped", "ended");
	bad_until("state", "ended");
	bad_until("prepared", "ended");
	bad_until("go", "ended");
	bad_until("refuse", "it has a headache");
}

/* As a process whose memory is pinned may take long to end: who traces it has to
 * hear of its end before its parent does. */
static void one_that_takes_long_to_end_is_not_waited_for(void **state)
{
	unsigned long long since = node_ms();
	char path[128];
	struct run run;
	siginfo_t end;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/bad", node[0].base);
	write_file(path, "traced");
	moving_upgrade_begin(&run, &node[0], self);
	while (!(pid = bad_pid(node[0].base))) {
		assert_true(node_ms() - since < MOVING_HANG_MS);
		moving_turn(&moving);
	}
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) {
		kill(pid, SIGKILL);
		moving_until(&moving, &run, 1);
		unlink(path);
		printf("SKIPPED: processes cannot be traced here: %s\n",
		       strerror(errno));
		skip();
	}
	moving_until(&moving, &run, 1);
	assert_int_equal(run.status, 1);
	if (!strstr(run.err, "it has a headache"))
		fail_msg("%s", run.err);
	/* Killed, and its parent goes on beside it. */
	assert_int_equal(
		waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT | __WALL), 0);
	assert_int_equal(end.si_status, SIGKILL);
	say_to("info");
	moving_by(&moving, 2);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
	while (kill(pid, 0) == 0) {
		assert_true(node_ms() - since < MOVING_HANG_MS);
		moving_turn(&moving);
	}
	assert_int_equal(unlink(path), 0);
}

static void a_signal_does_the_same(void **state)
{
	json_int_t before = 0, now = 0;
	unsigned long long since = node_ms();
	json_t *data = node_ask(&node[1], "upgrades");

	before = json_integer_value(json_object_get(data, "count"));
	json_decref(data);
	assert_int_equal(kill(node[1].pid, SIGUSR2), 0);
	while (now != before + 1) {
		const char *argv[] = { "mpibctl", "-j",	  "-s", node[1].dir,
				       "upgrade", "show", NULL };
		struct run run;

		run_begin(&run, argv);
		while (!run_over(&run))
			moving_turn(&moving);
		if (run.status == 0)
			now = (json_int_t)number(run.out, "count");
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the signal does nothing");
	}
	moving_by(&moving, 2);
}

/* The one of data's list whose key is text. */
static const json_t *entry(const json_t *list, const char *key,
			   const char *text)
{
	const json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
	{
		const json_t *v = json_object_get(o, key);
		char number[24];

		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(v));
		if (!strcmp(json_is_string(v) ? json_string_value(v) : number,
			    text))
			return o;
	}
	fail_msg("there is no %s %s", key, text);
	return NULL;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t weight_of(const json_t *o)
{
	return json_integer_value(json_object_get(o, "weight"));
}

static void what_was_set_stays_set(void **state)
{
	const json_t *o;
	struct run run;
	char origin[32];
	json_t *data;

	snprintf(origin, sizeof(origin), "set by uid %u", getuid());
	say_to("set client.request_timeout 3599");
	say_to("share 1 weight=30");
	say_to("share 3.0 weight=20");
	upgrade(&run, &node[0], NULL);
	if (run.status)
		fail_msg("%s", run.err);
	moving_by(&moving, 2);
	data = node_ask(&node[0], "config");
	o = entry(data, "key", "request_timeout");
	assert_string_equal(text_of(o, "value"), "3599");
	assert_string_equal(text_of(o, "origin"), origin);
	json_decref(data);
	data = node_ask(&node[0], "clients");
	o = json_object_get(entry(data, "id", "1"), "share");
	assert_int_equal(weight_of(o), 30);
	json_decref(data);
	data = node_ask(&node[0], "conns");
	o = entry(json_object_get(data, "open"), "client", "3");
	assert_int_equal(weight_of(o), 20);
	json_decref(data);
}

/* Each has the number after the one before; and the last is told of. */
static void assert_whole(const char *lines, const char *last)
{
	json_int_t seq = 0;
	const char *at = lines;

	for (; *at; at = strchr(at, '\n') + 1) {
		json_t *e = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
		json_int_t now = json_integer_value(json_object_get(e, "seq"));

		assert_non_null(strchr(at, '\n'));
		if (seq && now != seq + 1)
			fail_msg("event %d follows %d", (int)now, (int)seq);
		seq = now;
		json_decref(e);
	}
	if (!strstr(lines, last))
		fail_msg("\"%s\" is not told of", last);
}

static void who_follows_events_goes_on(void **state)
{
	const char *argv[] = { "mpibctl", "-j",	    "-s", node[0].dir,
			       "events",  "follow", NULL };
	unsigned long long since = node_ms();
	static char seen[sizeof(((struct run *)0)->out)];
	struct run run, follower;
	char *end;

	run_begin(&follower, argv);
	moving_by(&moving, 20);
	upgrade(&run, &node[0], NULL);
	if (run.status)
		fail_msg("%s", run.err);
	say_to("set client.request_timeout 3571");
	while (!strstr(seen, "3571") && node_ms() - since < MOVING_HANG_MS) {
		ssize_t n = pread(fileno(follower.outfile), seen,
				  sizeof(seen) - 1, 0);

		seen[n > 0 ? n : 0] = '\0';
		end = strrchr(seen, '\n'); /* the last may be half written */
		*(end ? end + 1 : seen) = '\0';
		assert_false(run_over(&follower));
		moving_turn(&moving);
	}
	kill(follower.pid, SIGTERM);
	while (!run_over(&follower))
		moving_turn(&moving);
	assert_whole(seen, "3571");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traffic_goes_on_over_upgrades),
		cmocka_unit_test(a_program_that_is_none_of_ours_harms_nobody),
		cmocka_unit_test(a_configuration_that_is_wrong_harms_nobody),
		cmocka_unit_test(one_that_dies_on_the_way_harms_nobody),
		cmocka_unit_test(one_that_takes_long_to_end_is_not_waited_for),
		cmocka_unit_test(a_signal_does_the_same),
		cmocka_unit_test(what_was_set_stays_set),
		cmocka_unit_test(who_follows_events_goes_on),
	};
	int sock;

	if (argc > 1 && sscanf(argv[1], "--takeover=%d", &sock) == 1)
		return bad_successor(argc, argv, sock);
	if (argc > 1)
		upgrades = arg_count(argv[1]);
	if (upgrades == 0 ||
	    readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 2;
	return cmocka_run_group_tests(tests, start, stop);
}
