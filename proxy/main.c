/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-proxy's main(): options, privileges, daemon, run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/event.h"
#include "base/log.h"
#include "base/memseg.h"
#include "config/config.h"
#include "daemon.h"
#include "privileges.h"
#include "proxy.h"

#define EXIT_CONFIG 78 /* EX_CONFIG of <sysexits.h>; the unit names it */

/* Print why the start failed, one reason per line. If `report` is open, the
 * daemon's starter prints the reasons. For the journal, the log adds the level
 * of each line. */
static int proxy_fail(int report, int status, const char *why)
{
	char line[MPIB_WHY_MAX + 16];
	size_t n;

	mpib_succession_fail(why);
	for (; report < 0 && *why; why += n + (why[n] == '\n')) {
		n = strcspn(why, "\n");
		if (mpib_log_is_json() || mpib_log_is_journal())
			mpib_err("%.*s", (int)n, why);
		else
			fprintf(stderr, "mpib-proxy: %.*s\n", (int)n, why);
	}
	if (report >= 0) {
		snprintf(line, sizeof(line), "mpib-proxy: %s", why);
		mpib_daemon_report(report, status, line);
	}
	return status;
}

/* Set the default run directory, or make a given one absolute, since a daemon
 * runs in "/". */
static int settle_run_dir(struct mpib_config *cfg, char *why)
{
	char cwd[PATH_MAX], given[sizeof(cfg->run_dir)];

	if (!cfg->run_dir[0])
		return mpib_rundir_default(cfg->run_dir, sizeof(cfg->run_dir),
					   why);
	if (cfg->run_dir[0] == '/')
		return 0;
	memcpy(given, cfg->run_dir, sizeof(given));
	if (getcwd(cwd, sizeof(cwd)) &&
	    snprintf(cfg->run_dir, sizeof(cfg->run_dir), "%s/%s", cwd, given) <
		    (int)sizeof(cfg->run_dir))
		return 0;
	return mpib_why_fail(
		why, -ENAMETOOLONG,
		"run directory %s: its whole path is too long (give a shorter "
		"one)",
		given);
}

static int proxy_run(struct mpib_proxy *p)
{
	int rc = mpib_proxy_run(p);

	if (rc < 0)
		mpib_err("control thread: %s", strerror(-rc));
	mpib_proxy_stop(p);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Warn if the proxy cannot keep users from punching holes into shared memory.
 * The proxy works without this right, but then one user can delay another
 * user. */
static void warn_of_holes(void)
{
	int rc = mpib_memseg_holes();

	if (rc == -EPERM)
		mpib_warn("users can delay each other by punching holes into "
			  "shared memory: CAP_LINUX_IMMUTABLE is missing "
			  "(grant it, as the unit does)");
	else if (rc < 0)
		mpib_warn("users can delay each other by punching holes into "
			  "shared memory: the kernel cannot forbid it: %s "
			  "(use Linux 6.1 or newer)",
			  strerror(-rc));
}

/* Warn if root's proxy has no group whose members may attach. */
static void warn_of_group(const struct mpib_proxy *p)
{
	const char *group = p->cfg.run_group;

	if (geteuid() == 0 && group[0] && p->rundir.gid == (gid_t)-1)
		mpib_warn("only root can attach: there is no group %s "
			  "(addgroup --system %s, then restart mpib-proxy)",
			  group, group);
}

/* Each has a thread, so that no write blocks the control thread. */
static struct mpib_writer *const writers[] = {
	&mpib_log_writer,
	&mpib_event_writer,
	&mpib_notify_writer,
};
#define WRITERS (sizeof(writers) / sizeof(writers[0]))

static void drain_writers(void)
{
	for (unsigned i = 0; i < WRITERS; i++)
		mpib_writer_drain(writers[i]);
}

static int start_writers(char *why)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < WRITERS; i++)
		rc = mpib_writer_start(writers[i]);
	if (rc < 0)
		return mpib_why_fail(why, rc,
				     "start: no thread for the log: %s (raise "
				     "the limit of processes, ulimit -u)",
				     strerror(-rc));
	atexit(drain_writers);
	return 0;
}

/* Print the line "ready ...", unless a write to standard output would block:
 * the reader of a pipe may hang. */
static void print_ready(const char *ready)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	if (poll(&out, 1, 0) <= 0)
		return;
	printf("%s\n", ready);
	fflush(stdout);
}

static int proxy_serve(struct mpib_proxy *p, int report)
{
	char why[MPIB_WHY_MAX], ready[900];
	int rc = start_writers(why);

	if (rc == 0)
		rc = mpib_proxy_start(p, why);
	if (rc < 0)
		return proxy_fail(report,
				  p->misconfigured ? EXIT_CONFIG : EXIT_FAILURE,
				  why);

	warn_of_holes();
	warn_of_group(p);
	mpib_proxy_ready_line(p, ready, sizeof(ready));
	if (report >= 0)
		mpib_daemon_report(report, 0, ready);
	else if (p->cfg.daemon)
		mpib_daemon_settle(); /* the successor of a daemon */
	else
		print_ready(ready);
	return proxy_run(p);
}

static void warn_unknown(void *arg, const char *name, const char *nearest)
{
	(void)arg;
	mpib_warn("environment: nothing reads %s (%s%s%s)", name,
		  nearest ? "did you mean " : "mpib.conf(5) lists the names",
		  nearest ? nearest : "", nearest ? "?" : "");
}

static bool is_not_taken(const char *name)
{
	return !strncmp(name, "NCCL_IB_", 8) && !mpib_config_takes_nccl(name);
}

static bool is_link(const char *name)
{
	return !strncmp(name, "MPIB_", 5) &&
	       mpib_environ_is_link(mpib_config_getenv(environ, name));
}

static void warn_of_variables(void)
{
	char names[300];

	mpib_environ_check(environ, warn_unknown, NULL);
	if (mpib_environ_list(environ, is_link, names, sizeof(names)))
		mpib_warn("environment: %s: ignored, since Kubernetes made "
			  "them for a Service (set enableServiceLinks: false "
			  "in the pod's spec)",
			  names);
	if (mpib_environ_list(environ, is_not_taken, names, sizeof(names)))
		mpib_info("environment: %s: of NCCL's own transport, ignored "
			  "by mpib (mpib.conf(5) lists the variables that mpib "
			  "reads)",
			  names);
}

static int proxy_start(struct mpib_proxy *p, char **argv)
{
	char why[MPIB_WHY_MAX];
	int report = -1, rc;

	warn_of_variables();
	if (p->cfg.found)
		mpib_info("no rail is named, devices are %s; %s (--sout and "
			  "--sup, or --device, name others)",
			  p->cfg.why_devices, p->cfg.passed_over);
	if (p->cfg.daemon && !mpib_succession()) {
		rc = mpib_daemon_start(&report);
		if (rc < 0) {
			snprintf(why, sizeof(why),
				 "daemon: %s (run it in the foreground)",
				 strerror(-rc));
			return proxy_fail(-1, EXIT_FAILURE, why);
		}
	}
	rc = mpib_starter_fork(argv, p->cfg.daemon ? mpib_daemon_hush : NULL);
	if (rc < 0)
		mpib_warn("upgrades are not possible: fork: %s (raise the "
			  "limit, ulimit -u)",
			  strerror(-rc));
	mpib_upgrade_init(&p->upgrade, &p->loop, &p->cfg, &p->clients, rc);
	mpib_sandbox(&p->cfg);
	return proxy_serve(p, report);
}

/* Return the exit status of an action that printed to standard output. */
static int proxy_printed(void)
{
	/* Fail also if an earlier block could not be written. */
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr,
		"mpib-proxy: standard output: %s (check where it leads)\n",
		strerror(errno));
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static struct mpib_proxy proxy;
	enum mpib_action action;
	char why[MPIB_WHY_MAX];
	int rc;

	mpib_log_begin();
	mpib_succession_find();
	mpib_config_init(&proxy.cfg);
	rc = mpib_options_read(&proxy.cfg, argc, argv, environ, MPIB_CONFIG_DIR,
			       &action, why);
	mpib_log_set_json(proxy.cfg.log_format == 1);
	if (rc == 0 && action == MPIB_ACTION_RUN)
		rc = settle_run_dir(&proxy.cfg, why);
	if (rc < 0)
		return proxy_fail(-1, EXIT_CONFIG, why);

	switch (action) {
	case MPIB_ACTION_CHECK:
		warn_of_variables();
		mpib_config_dump(&proxy.cfg, stdout);
		return proxy_printed();
	case MPIB_ACTION_HELP:
		mpib_options_help(stdout);
		return proxy_printed();
	case MPIB_ACTION_VERSION:
		printf("mpib-proxy %s\n", MPIB_VERSION);
		return proxy_printed();
	case MPIB_ACTION_RUN:
		break;
	}
	mpib_log_set_level((enum mpib_log_level)proxy.cfg.log_level);
	mpib_keep_secrets(&proxy.cfg);
	return proxy_start(&proxy, argv);
}
