/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl report: all data that remote support asks for, in one text file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/commands.h"
#include "ctl/views.h"

extern char **environ;

/* A script for sh. Its arguments are the path of mpibctl, and the run directory
 * or "". The other programs that the script runs may be missing. The output
 * contains no key, token or environment. */
static const char script[] =
	"show() { printf '\\n== %s\\n' \"$*\"; \"$@\"; }\n"
	"mpibctl() { \"$ctl\" ${dir:+-s \"$dir\"} \"$@\"; }\n"
	"ctl=$1 dir=$2\n"
	"for words in --version summary info devices 'devices gpus' \\\n"
	"	'rails --wide' counters jobs 'clients --wide' 'conns --wide' \\\n"
	"	'lanes --wide' peers cluster 'cluster jobs' 'cluster stuck' \\\n"
	"	'stuck 1' why hist 'history 10' events config agent doctor; do\n"
	"	show mpibctl $words\n"
	"done\n"
	"show uname -a\n"
	"show uptime\n"
	"show free -m\n"
	"show ip -brief address\n"
	"show ibv_devinfo -v\n"
	"show rdma link\n"
	"show nvidia-smi\n"
	"show journalctl --unit mpib-proxy --lines 1000 --no-pager\n"
	"show dmesg --level err,warn\n"
	"exit 0\n";

/* Run the script with standard output and error to fd. Return 0 or -errno. */
static int report_run(int fd, const char *run_dir)
{
	char sh[] = "sh", option[] = "-c", text[sizeof(script)];
	char ctl[PATH_MAX] = "", dir[PATH_MAX] = "";
	char *argv[] = { sh, option, text, sh, ctl, dir, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int rc;

	memcpy(text, script, sizeof(script));
	if (readlink("/proc/self/exe", ctl, sizeof(ctl) - 1) < 0)
		return -errno;
	snprintf(dir, sizeof(dir), "%s", run_dir ? run_dir : "");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
					 O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
	rc = -posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc == 0)
		waitpid(pid, NULL, 0);
	return rc;
}

int mpib_ctl_report(const struct mpib_ctl_call *call)
{
	const char *path = call->argv[0];
	char why[MPIB_DIAL_WHY];
	/* Never overwrite an earlier report. */
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0) {
		snprintf(why, sizeof(why), "report: %s: %s (name a new file)",
			 path, strerror(errno));
		return mpib_ctl_fail(MPIB_EXIT_FAILED, why);
	}
	rc = report_run(fd, call->run_dir);
	if (close(fd) < 0)
		rc = -errno;
	if (rc < 0) {
		snprintf(why, sizeof(why),
			 "report: %s: %s (check its file system)", path,
			 strerror(-rc));
		return mpib_ctl_fail(MPIB_EXIT_FAILED, why);
	}
	printf("wrote the report to %s; it names hosts, users, jobs and "
	       "addresses, but has no keys\n",
	       path);
	return mpib_ctl_finish(MPIB_EXIT_OK);
}

/* mpibctl without a command: the state of the node on one screen. */

#define RATE_US 500000
#define EVENTS 5 /* the number of latest warnings and errors to show */

struct summary {
	const char *command;
	json_t *data;
};

static int summary_ask(struct mpib_dial *d, struct summary *all, unsigned n)
{
	int rc = MPIB_EXIT_OK;

	for (unsigned i = 0; rc == MPIB_EXIT_OK && i < n; i++)
		rc = mpib_dial_ask(d, all[i].command, &all[i].data);
	return rc;
}

static bool is_running(const json_t *job)
{
	return json_is_null(json_object_get(job, "ended"));
}

static bool is_warning(const json_t *event)
{
	const char *level = mpib_json_str(event, "level");

	return !strcmp(level, "warn") || !strcmp(level, "error");
}

static void print_view(const char *noun, const json_t *data)
{
	mpib_ctl_view_print(mpib_ctl_view(noun), data, mpib_ctl_width(),
			    stdout);
}

static void summary_print(const struct summary *all)
{
	json_t *events = json_object_get(all[4].data, "events");
	const json_t *stuck = all[3].data;
	size_t waiting = json_array_size(json_object_get(stuck, "requests")) +
			 json_array_size(json_object_get(stuck, "connecting")) +
			 mpib_json_num(stuck, "more");

	json_object_set_new(all[1].data, "waiting",
			    json_integer((json_int_t)waiting));
	print_view("summary", all[1].data);
	mpib_columns_show(false, true);
	putchar('\n');
	print_view("rails", all[0].data);
	mpib_rows_keep(all[2].data, is_running);
	if (json_array_size(all[2].data)) {
		putchar('\n');
		print_view("jobs", all[2].data);
	}
	mpib_rows_keep(events, is_warning);
	while (json_array_size(events) > EVENTS)
		json_array_remove(events, 0);
	if (json_array_size(events)) {
		putchar('\n');
		print_view("events", all[4].data);
	}
}

static void summary_json(const struct summary *all, unsigned n)
{
	json_t *whole = json_object();

	for (unsigned i = 0; i < n; i++)
		json_object_set(whole, all[i].command, all[i].data);
	json_dumpf(whole, stdout, JSON_INDENT(2) | MPIB_JSON_DIGITS);
	putchar('\n');
	json_decref(whole);
}

int mpib_ctl_summary(const struct mpib_ctl_call *call)
{
	struct summary before = { "rails", NULL };
	struct summary all[] = { { "rails", NULL },
				 { "info", NULL },
				 { "jobs", NULL },
				 { "stuck", NULL },
				 { "events", NULL } };
	const unsigned n = sizeof(all) / sizeof(all[0]);
	struct mpib_answer rails = { 0 };
	struct mpib_dial d;
	int rc = mpib_dial_open(&d, call->run_dir);

	if (rc == MPIB_EXIT_OK)
		rc = summary_ask(&d, &before, 1);
	if (rc == MPIB_EXIT_OK) {
		mpib_answer_put(&rails, NULL, before.data);
		usleep(RATE_US);
		rc = summary_ask(&d, all, n);
	}
	if (rc == MPIB_EXIT_OK) {
		mpib_answer_put(&rails, NULL, json_incref(all[0].data));
		if (call->json)
			summary_json(all, n);
		else
			summary_print(all);
		rc = mpib_ctl_finish(rc);
	} else {
		mpib_ctl_fail(rc, d.why);
	}
	json_decref(rails.data);
	for (unsigned i = 0; i < n; i++)
		json_decref(all[i].data);
	mpib_dial_close(&d);
	return rc;
}
