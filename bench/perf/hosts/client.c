/* SPDX-License-Identifier: Apache-2.0 */
/* The process that prints the report: mpib-perf --client, or rank 0 of a
 * launcher. */
#include "perf/hosts/hosts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/report.h"

/* Seconds after which rank 0 names the missing ranks. */
#define PATIENCE_S 10

static struct perf_hub *hub;
static pid_t own_node;

/* On SIGINT, end a steady run. The results so far are reported. */
static void interrupted(int sig)
{
	if (sig == SIGINT && perf_hub_enough(hub))
		return;
	if (own_node)
		kill(own_node, SIGTERM);
	_exit(128 + sig);
}

/* Fork node 0, whose ranks run on this host, and wait for its HELLO. */
static int start_own(const struct perf_options *opt)
{
	pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return perf_bad("socketpair: %s", strerror(errno));
	fflush(stdout);
	own_node = fork();
	if (own_node == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(1);
		signal(SIGINT, SIG_IGN);
		close(pair[0]);
		exit(perf_node_run(pair[1], opt) ? 1 : 0);
	}
	close(pair[1]);
	if (own_node < 0) {
		close(pair[0]);
		own_node = 0;
		return perf_bad("rank 0: it does not start: %s",
				strerror(errno));
	}
	perf_link_ready(pair[0]);
	return perf_hub_greet(hub, pair[0], 0, NULL) < 0 ? -EIO : 0;
}

/* Run the test on all nodes that have sent HELLO, and print the report. */
static int run(void)
{
	bool ok = perf_hub_run(hub) == 0;
	int status;

	if (own_node)
		waitpid(own_node, &status, 0);
	own_node = 0;
	ok = ok && perf_report(hub->w);
	perf_hub_free(hub);
	return ok ? 0 : 1;
}

static bool begin(const struct perf_options *opt)
{
	hub = perf_hub_new(opt);
	if (!hub)
		return false;
	signal(SIGINT, interrupted);
	signal(SIGTERM, interrupted);
	return start_own(opt) == 0;
}

int perf_client(const struct perf_options *opt)
{
	int fd[PERF_NODES_MAX];

	/* Connect before this process starts its own ranks. Otherwise, after a
	 * failed connect, these ranks would also print that the test ends. */
	for (int i = 0; i < opt->nhosts; i++) {
		fd[i] = perf_link_dial(opt->hosts[i], opt->port, 0);
		if (fd[i] < 0)
			return 1;
	}
	if (!begin(opt))
		return 1;
	for (int i = 0; i < opt->nhosts; i++) {
		if (perf_hub_greet(hub, fd[i], 1 + i, opt->hosts[i]) < 0)
			return 1;
	}
	return run();
}

/* List the missing ranks on stderr. */
static void name_missing(const struct perf_options *opt)
{
	char text[200] = "";
	int missing = 0;

	for (int i = 0; i < hub->n; i++) {
		size_t used = strlen(text);

		if (hub->node[i].fd >= 0)
			continue;
		missing++;
		if (used + 8 < sizeof(text))
			snprintf(text + used, sizeof(text) - used, "%s%d",
				 used ? "," : "", i);
	}
	perf_bad(
		"%d of %d ranks have not connected to port %d of this host: %s (do they run, and does a firewall let them pass?)",
		missing, hub->n, opt->port, text);
}

/* Wait until all ranks of the launcher have connected. */
static int gather(const struct perf_options *opt, int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	double begun = perf_now();
	bool told = false;
	int left = hub->n - 1;

	while (left > 0) {
		double waited = perf_now() - begun;
		int fd;

		if (waited > opt->timeout || (!told && waited > PATIENCE_S)) {
			name_missing(opt);
			if (waited > opt->timeout)
				return -ETIMEDOUT;
			told = true;
		}
		if (poll(&p, 1, 200) <= 0)
			continue;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		perf_link_ready(fd);
		left -= perf_hub_greet(hub, fd, -1, NULL) >= 0;
	}
	return 0;
}

int perf_launched(const struct perf_options *opt)
{
	int port = opt->port, fd;

	if (opt->rank > 0) {
		fd = perf_link_dial(opt->rendezvous, port, opt->timeout);
		return fd < 0 || perf_node_run(fd, opt) ? 1 : 0;
	}
	fd = perf_link_listen(opt->listen, &port);
	if (fd < 0 || !begin(opt) || gather(opt, fd) < 0)
		return 1;
	close(fd);
	return run();
}
