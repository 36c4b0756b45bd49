/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-perf --server. Each test runs in a forked process, so that the server
 * survives a failed test. A program that reaches the port can only put load on
 * this host, since the server sets plugin, device and environment.
 */
#include "perf/hosts/hosts.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MAX 4
/* The interval of the check for ended tests. */
#define LOOK_MS 200

static struct {
	pid_t pid; /* 0: none */
	char peer[80];
} test[TESTS_MAX];

static int running(void)
{
	int n = 0;

	for (int i = 0; i < TESTS_MAX; i++)
		n += test[i].pid != 0;
	return n;
}

static void say(const char *peer, const char *what)
{
	printf("%s: %s\n", peer, what);
	fflush(stdout);
}

/* Report the tests that have ended. Returns their number; *bad tells whether a
 * test failed. */
static int reap(bool *bad)
{
	int status, n = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < TESTS_MAX; i++) {
			if (test[i].pid != pid)
				continue;
			test[i].pid = 0;
			*bad = !WIFEXITED(status) || WEXITSTATUS(status);
			say(test[i].peer,
			    *bad ? "test failed" : "test ended well");
			n++;
		}
	}
	return n;
}

static void refuse(int fd, const char *why)
{
	perf_link_send(fd, PERF_FAIL, why, strlen(why));
	close(fd);
}

static void fork_test(const struct perf_options *opt, int listener, int fd,
		      const char *peer)
{
	pid_t parent = getpid(), pid = fork();
	int i = 0;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(1);
		close(listener);
		exit(perf_node_run(fd, opt) ? 1 : 0);
	}
	if (pid < 0) {
		refuse(fd, "its server cannot start a process");
		return;
	}
	close(fd);
	while (test[i].pid)
		i++;
	test[i].pid = pid;
	snprintf(test[i].peer, sizeof(test[i].peer), "%s", peer);
	say(peer, "test begins");
}

static void take_one(const struct perf_options *opt, int listener)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	char peer[64] = "?";
	const char *name;
	int fd = accept4(listener, (struct sockaddr *)&at, &len, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	perf_link_ready(fd);
	getnameinfo((struct sockaddr *)&at, len, peer, sizeof(peer), NULL, 0,
		    NI_NUMERICHOST);
	/* Skip the prefix of an IPv4 address at an IPv6 socket. */
	name = peer + (strncmp(peer, "::ffff:", 7) == 0 ? 7 : 0);
	if (running() == TESTS_MAX)
		refuse(fd, "its server runs four tests already (try later)");
	else
		fork_test(opt, listener, fd, name);
}

/* Choose the address to listen at: --listen, or else the address of this node's
 * peer link. NULL means all addresses. */
static const char *listen_at(const struct perf_options *opt, char *buf,
			     size_t len)
{
	char dir[256];
	char *port;

	if (opt->listen)
		return opt->listen;
	perf_node_run_dir(opt, dir, sizeof(dir));
	if (!perf_rails_peer_link(dir, buf, len))
		return NULL;
	port = strrchr(buf, ':');
	if (port)
		*port = '\0';
	if (buf[0] == '[') {
		buf[strcspn(buf, "]")] = '\0';
		return buf + 1;
	}
	return buf;
}

int perf_serve(const struct perf_options *opt)
{
	char address[128];
	const char *at = listen_at(opt, address, sizeof(address));
	int port = opt->port;
	struct pollfd p = { .events = POLLIN };
	bool bad = false;

	p.fd = perf_link_listen(at, &port);
	if (p.fd < 0)
		return 1;
	printf("ready: port %d\n", port);
	printf("note: there is no authentication: any program that reaches "
	       "%s%sport %d can put load on this host (--listen ADDRESS)\n",
	       at ? at : "", at ? " " : "", port);
	fflush(stdout);
	for (;;) {
		if (poll(&p, 1, LOOK_MS) < 0 && errno != EINTR)
			break;
		if (reap(&bad) > 0 && opt->once)
			break;
		if (p.revents & POLLIN && !(opt->once && running()))
			take_one(opt, p.fd);
		p.revents = 0;
	}
	close(p.fd);
	return bad;
}
