/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade [N]: one of two proxies is upgraded N times under checked traffic. No
 * call of the clients fails, and each message arrives once and complete. An
 * upgrade to a program that cannot take over changes nothing, and mpibctl
 * prints the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moving.h"
#include "test.h"

static struct node node[2];
static struct moving moving;
static struct run run;
static unsigned times = 4;

/* Run mpibctl upgrade while messages are in flight. */
static void upgrade(const struct node *of, const char *path)
{
	const char *argv[] = {
		"mpibctl", "-s", of->dir, "upgrade", path, NULL
	};

	run_begin(&run, argv);
	moving_until(&moving, &run, 1);
}

static void node_took(struct node *of)
{
	if (run.status != 0)
		fail_msg("mpibctl upgrade: %d: %s", run.status, run.err);
	node_succeeded(of);
}

static void nodes_start(void)
{
	static const char *const args[] = { "--resume-grace", "30", NULL };

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	moving_start(&moving, node, 5, args);
}

TEST(a_job_outlives_upgrades)
{
	nodes_start();
	for (unsigned k = 0; k < times; k++) {
		struct node *of = &node[k & 1];

		moving_by(&moving, k % 5);
		upgrade(of, k % 3 ? MPIB_PROXY_PATH : NULL);
		node_took(of);
		moving_by(&moving, 3);
	}
	moving_end(&moving, node);
	printf("%u upgrades: 0 errors, 0 wrong\n", times);
}

static void is_refused(struct node *of, const char *path, const char *why)
{
	json_t *info;

	upgrade(of, path);
	assert_int_equal(run.status, 1);
	if (!strstr(run.err, why))
		fail_msg("\"%s\" does not say \"%s\"", run.err, why);
	info = node_ask(of, "info");
	assert_int_equal(json_integer_value(json_object_get(info, "pid")),
			 of->pid);
	json_decref(info);
	moving_by(&moving, 1);
}

static void write_conf(const struct node *of, const char *text)
{
	FILE *f = fopen(of->conf, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

TEST(a_program_that_cannot_take_over_is_refused)
{
	char copy[sizeof(node[0].base) + 8], command[400];

	nodes_start();
	is_refused(&node[0], "/nonexistent/mpib-proxy",
		   "/nonexistent/mpib-proxy: No such file");
	is_refused(&node[0], "mpib-proxy", "start it with /");
	is_refused(&node[0], "/bin/false", "exited before it was ready");
	is_refused(&node[0], node[0].base, "Permission denied");

	snprintf(copy, sizeof(copy), "%s/copy", node[0].base);
	snprintf(command, sizeof(command), "cp %s %s && chmod 757 %s",
		 MPIB_PROXY_PATH, copy, copy);
	assert_int_equal(system(command), 0);
	is_refused(&node[0], copy, "not writable by others");
	assert_int_equal(unlink(copy), 0);

	write_conf(&node[0], "[proxy]\nthreads = no\n");
	is_refused(&node[0], NULL, "threads");
	write_conf(&node[0], "[proxy]\nthreads = 2\n");
	is_refused(&node[0], NULL,
		   "proxy.threads would be 2, the running proxy has 1");
	/* With this limit, registrations of the ranks would fail, so the
	 * upgrade is refused. */
	write_conf(&node[0], "[quota]\nmemory = 8k\n");
	is_refused(&node[0], NULL, "would exceed quota.memory = 8192");
	write_conf(&node[0], "");
	upgrade(&node[0], NULL);
	node_took(&node[0]);
	moving_by(&moving, 1);
	moving_end(&moving, node);
}

static bool is_drained(const struct node *of)
{
	json_t *rails = node_ask(of, "rails");
	bool drained = json_is_true(
		json_object_get(json_array_get(rails, 1), "drained"));

	json_decref(rails);
	return drained;
}

/* Write the value and the origin of a setting to buf. */
static void setting_of(const struct node *of, const char *key, char *buf,
		       size_t len)
{
	json_t *rows = node_ask(of, "config"), *row;
	size_t i;

	buf[0] = '\0';
	json_array_foreach(rows, i, row)
	{
		if (!strcmp(json_string_value(json_object_get(row, "key")),
			    key))
			snprintf(buf, len, "%s %s",
				 json_string_value(
					 json_object_get(row, "value")),
				 json_string_value(
					 json_object_get(row, "origin")));
	}
	json_decref(rows);
}

static void restart(struct node *of)
{
	node_kill(of);
	node_again(of);
}

static void write_state(const struct node *of, const char *text)
{
	char path[sizeof(of->dir) + 8];
	FILE *f;

	snprintf(path, sizeof(path), "%s/state", of->dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

TEST(changes_by_an_operator_survive_a_restart)
{
	const char *argv[] = { "mpibctl", "-s", node[0].dir, "upgrade", NULL };
	struct node *of = &node[0];
	char before[80], now[80];

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	node_start(of, 5, "--log-level", "error", NULL);
	json_decref(node_ask(of, "drain SUP"));
	json_decref(node_ask(of, "set share.rules uid=7:weight=20"));
	setting_of(of, "rules", before, sizeof(before));
	assert_non_null(strstr(before, "uid=7:weight=20 set by uid"));

	run_wait(&run, argv);
	node_took(of);
	assert_true(is_drained(of));
	setting_of(of, "rules", now, sizeof(now));
	assert_string_equal(now, before);

	restart(of);
	assert_true(is_drained(of));
	setting_of(of, "rules", now, sizeof(now));
	assert_string_equal(now, before);

	json_decref(node_ask(of, "resume SUP"));
	restart(of);
	assert_false(is_drained(of));

	/* Invalid lines are skipped. A file that is not text is skipped,
	 * too. */
	write_state(of, "mpib-proxy state 1\n0 drain NORTH\n0 kick 1\nx\n"
			"0 drain SUP\n");
	restart(of);
	assert_true(is_drained(of));
	write_state(of, "\x7f\xff 0 drain SUP\n0 drain SUP\n");
	restart(of);
	assert_false(is_drained(of));
	node_stop(of);
}

unsigned *test_times = &times;
