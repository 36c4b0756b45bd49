/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-proxy's main(): options, privileges, daemon, run. Started with
 * --guard=LINK it is a guard instead (handover/guard.h), with --takeover=SOCKET
 * it takes over from the proxy that started it (handover/takeover.h).
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
#include "config/options.h"
#include "daemon.h"
#include "drop.h"
#include "handover/guard.h"
#include "handover/spawn.h"
#include "notify.h"
#include "proxy.h"
#include "sandbox.h"

#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h; systemd knows it */

/* Print why the start failed, a line each, in a daemon through its starter
 * (report). The log gives the journal a line's level. */
static int proxy_fail(int report, int status, const char *why)
{
	char line[MPIB_WHY_MAX + 16];
	size_t n;

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

/* Make a relative path absolute, since a daemon runs in "/". */
static int settle_path(char *path, size_t size, const char *what, char *why)
{
	char cwd[PATH_MAX], given[256];

	if (!path[0] || path[0] == '/')
		return 0;
	snprintf(given, sizeof(given), "%s", path);
	if (getcwd(cwd, sizeof(cwd)) &&
	    snprintf(path, size, "%s/%s", cwd, given) < (int)size)
		return 0;
	return mpib_why_fail(
		why, -ENAMETOOLONG,
		"%s %s: its whole path is too long (give a shorter one)", what,
		given);
}

/* The default run directory, and the paths of files that are read once more after an
 * upgrade that failed. */
static int settle_paths(struct mpib_config *cfg, char *why)
{
	const struct {
		char *path;
		size_t size;
		const char *what;
	} each[] = {
		{ cfg->run_dir, sizeof(cfg->run_dir), "run directory" },
		{ cfg->metrics_cert, sizeof(cfg->metrics_cert),
		  "metrics.cert" },
		{ cfg->metrics_key, sizeof(cfg->metrics_key), "metrics.key" },
		{ cfg->metrics_token_file, sizeof(cfg->metrics_token_file),
		  "metrics.token_file" },
	};
	int rc = 0;

	if (!cfg->run_dir[0])
		rc = mpib_rundir_default(cfg->run_dir, sizeof(cfg->run_dir),
					 why);
	for (size_t i = 0; rc == 0 && i < sizeof(each) / sizeof(each[0]); i++)
		rc = settle_path(each[i].path, each[i].size, each[i].what, why);
	return rc;
}

static int proxy_run(struct mpib_proxy *p)
{
	int rc = mpib_proxy_run(p);

	if (rc < 0)
		mpib_err("control thread: %s", strerror(-rc));
	mpib_proxy_stop(p);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* It serves without, but one user's progress can stand still for another's sake. */
static void warn_of_holes(void)
{
	int rc = mpib_memseg_holes();

	if (rc == -EPERM)
		mpib_warn("users may punch holes into rings and pools, for "
			  "which all on a shard wait: there is no "
			  "CAP_LINUX_IMMUTABLE (give it, as the unit does)");
	else if (rc < 0)
		mpib_warn("users may punch holes into rings and pools, for "
			  "which all on a shard wait: no flag of memory is "
			  "against it: %s (Linux 6.1 has one)",
			  strerror(-rc));
}

static void drain_writers(void)
{
	mpib_log_drain();
	mpib_events_drain();
	mpib_notify_drain();
}

/* From now on, no write to a log, file or supervisor blocks the control thread. */
static int start_writers(char *why)
{
	int rc = mpib_log_start();

	if (rc == 0)
		rc = mpib_events_start();
	if (rc == 0)
		rc = mpib_notify_start();
	if (rc < 0)
		return mpib_why_fail(why, rc,
				     "start: no thread for the log: %s (raise "
				     "the limit of processes, ulimit -u)",
				     strerror(-rc));
	atexit(drain_writers);
	return 0;
}

/* Print the line that says that the proxy is ready, unless standard output has no
 * room for it: its reader may be stuck. */
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

	if (rc < 0 && p->takeover)
		mpib_takeover_refuse(p->takeover, why);
	if (rc == 0)
		rc = mpib_proxy_start(p, why);
	if (rc < 0)
		return proxy_fail(report,
				  p->misconfigured ? EXIT_CONFIG : EXIT_FAILURE,
				  why);

	warn_of_holes();
	if (p->takeover)
		return proxy_run(p);
	mpib_proxy_ready_line(p, ready, sizeof(ready));
	if (report >= 0) {
		mpib_daemon_report(report, 0, ready);
	} else {
		print_ready(ready);
	}
	return proxy_run(p);
}

static void warn_unknown(void *arg, const char *name, const char *nearest)
{
	(void)arg;
	mpib_warn("environment: nothing reads %s (%s%s%s)", name,
		  nearest ? "did you mean " : "mpib.conf(5) has the names",
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

static void say_lost(void)
{
	char names[300];

	if (mpib_environ_list(environ, is_link, names, sizeof(names)))
		mpib_warn("environment: %s: passed over, Kubernetes made them "
			  "of a Service (enableServiceLinks: false in the "
			  "pod's spec)",
			  names);
	if (mpib_environ_list(environ, is_not_taken, names, sizeof(names)))
		mpib_info("environment: %s: of NCCL's own transport, of no "
			  "effect here (mpib.conf(5) has those that are taken)",
			  names);
}

static int proxy_start(struct mpib_proxy *p)
{
	char why[MPIB_WHY_MAX];
	int report = -1, rc;

	mpib_environ_check(environ, warn_unknown, NULL);
	say_lost();
	if (p->cfg.found && !p->takeover)
		mpib_info("no rail is named, devices are %s; %s (--sout and "
			  "--sup, or --device, name others)",
			  p->cfg.why_devices, p->cfg.passed_over);
	if (p->takeover && p->cfg.daemon) {
		mpib_daemon_log();
	} else if (p->cfg.daemon) {
		rc = mpib_daemon_start(&report);
		if (rc < 0) {
			snprintf(why, sizeof(why),
				 "daemon: %s (run it in the foreground)",
				 strerror(-rc));
			return proxy_fail(-1, EXIT_FAILURE, why);
		}
	}
	return proxy_serve(p, report);
}

/* The value of the internal flag name, which mpib-proxy gives to itself as the
 * first argument; NULL when that is no such flag. */
static const char *own_flag(int argc, char **argv, const char *name)
{
	size_t n = strlen(name);

	return argc > 1 && !strncmp(argv[1], name, n) ? argv[1] + n : NULL;
}

/* The start failed: print why, and tell the old proxy if this one was to take
 * over. */
static int proxy_misconfigured(const struct mpib_proxy *p, const char *why)
{
	if (p->takeover)
		mpib_takeover_refuse(p->takeover, why);
	return proxy_fail(-1, EXIT_CONFIG, why);
}

/* The exit status of an action that printed to standard output. */
static int proxy_printed(void)
{
	/* A block that was lost before counts, too. */
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr,
		"mpib-proxy: standard output: %s (see where it leads)\n",
		strerror(errno));
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static struct mpib_takeover takeover;
	static struct mpib_proxy proxy;
	const char *flag = own_flag(argc, argv, "--guard=");
	enum mpib_action action;
	char why[MPIB_WHY_MAX];
	int rc;

	mpib_log_begin();
	if (flag)
		return mpib_guard_run((int)strtol(flag, NULL, 10));
	flag = own_flag(argc, argv, "--takeover=");
	if (flag) {
		takeover.sock = (int)strtol(flag, NULL, 10);
		proxy.takeover = &takeover;
		fcntl(takeover.sock, F_SETFD, FD_CLOEXEC);
		argv[1] = argv[0];
		argc--;
		argv++;
	}
	mpib_upgrade_init(&proxy.upgrade, &proxy, argv);
	mpib_config_init(&proxy.cfg);
	proxy.cfg.takes_over = proxy.takeover != NULL;
	rc = mpib_options_read(&proxy.cfg, argc, argv, environ, MPIB_CONFIG_DIR,
			       &action, why);
	mpib_log_set_json(proxy.cfg.log_format == 1);
	if (rc == 0 && action == MPIB_ACTION_RUN)
		rc = settle_paths(&proxy.cfg, why);
	if (rc < 0)
		return proxy_misconfigured(&proxy, why);

	switch (action) {
	case MPIB_ACTION_CHECK:
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
	mpib_spawn_reserve();
	rc = mpib_drop(&proxy.cfg, why);
	if (rc < 0)
		return proxy_misconfigured(&proxy, why);
	mpib_log_set_level((enum mpib_log_level)proxy.cfg.log_level);
	mpib_keep_secrets(&proxy.cfg);
	mpib_sandbox(&proxy.cfg);
	return proxy_start(&proxy);
}
