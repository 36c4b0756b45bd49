/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user opens many HTTP connections to the proxy's page and does not use them,
 * while another user scrapes the metrics.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"
#include "victim.h"

#define SLOW 40
#define SCRAPES 7
#define LOOPS 8
#define ANSWER_MS 15000

static struct node node[2];
static struct victim *victim;
static struct sockaddr_in page = { .sin_family = AF_INET };

static int setup(void **state)
{
	static const char *const args[] = { "--metrics-listen", "127.0.0.1:0",
					    "--limit-readers", "64", NULL };
	const char *http;
	unsigned port;

	victim = victim_between(node, args);
	if (!victim)
		return 0;
	http = strstr(node[0].ready, " http 127.0.0.1:");
	assert_non_null(http);
	assert_int_equal(sscanf(http, " http 127.0.0.1:%u", &port), 1);
	page.sin_port = htons((uint16_t)port);
	page.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return 0;
}

/* Connect to the page and send `text`. Return the socket or -1. */
static int visit(const char *text)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 &&
	    connect(fd, (struct sockaddr *)&page, sizeof(page)) == 0 &&
	    send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool is_over(int fd)
{
	char byte;

	return fd < 0 || recv(fd, &byte, 1, MSG_DONTWAIT) == 0 ||
	       (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Send requests that never end: send a byte now and then, so that the proxy
 * does not treat them as idle. Replace connections that the proxy closes. */
static int stay_slow(void *arg)
{
	int fd[SLOW];

	(void)arg;
	for (unsigned i = 0; i < SLOW; i++)
		fd[i] = visit("GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
	for (unsigned i = 0;; i = (i + 1) % SLOW) {
		if (!is_over(fd[i])) {
			(void)!send(fd[i], "X", 1, MSG_NOSIGNAL);
		} else {
			if (fd[i] >= 0)
				close(fd[i]);
			fd[i] = visit("GET / HTTP/1.1\r\n");
		}
		usleep(1000);
	}
	return 0;
}

/* Read until the proxy closes the connection. Return true if the proxy closed
 * the connection before the timeout, and the answer begins with the given
 * text. */
static bool answer_begins(int fd, const char *with)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[4096], head[16] = "";
	size_t got = 0;
	ssize_t n = -1;

	while (poll(&p, 1, ANSWER_MS) > 0 &&
	       (n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (got == 0)
			memcpy(head, buf, n < 15 ? (size_t)n : 15);
		got += (size_t)n;
	}
	close(fd);
	return n == 0 && !strncmp(head, with, strlen(with));
}

/* Request the largest answers endlessly. Use as many connections as a user may
 * have. */
static int ask_for_all(void *arg)
{
	static const char ask[] = "GET /stats.json HTTP/1.1\r\n"
				  "Host: localhost\r\n\r\n";
	struct pollfd p[LOOPS];
	char buf[65536];

	(void)arg;
	for (unsigned i = 0; i < LOOPS; i++)
		p[i] = (struct pollfd){ .fd = visit(ask), .events = POLLIN };
	for (;;) {
		poll(p, LOOPS, 1000);
		for (unsigned i = 0; i < LOOPS; i++) {
			if (p[i].revents &&
			    recv(p[i].fd, buf, sizeof(buf), MSG_DONTWAIT) > 0) {
				/* Send the next request before the current
				 * answer is read completely. */
				(void)!send(p[i].fd, ask, sizeof(ask) - 1,
					    MSG_NOSIGNAL | MSG_DONTWAIT);
			} else if (p[i].revents) {
				close(p[i].fd);
				p[i].fd = visit(ask);
			}
		}
	}
	return 0;
}

/* Exit with the number of scrapes that got no answer. */
static int scrape_page(void *arg)
{
	int failed = 0;

	(void)arg;
	for (unsigned i = 0; i < SCRAPES; i++) {
		int fd = visit("GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
			       "Connection: close\r\n\r\n");

		failed += fd < 0 || !answer_begins(fd, "HTTP/1.1 200");
	}
	return failed;
}

TEST(slow_clients_do_not_block_scrapes)
{
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, stay_slow, NULL);
	usleep(300000);
	assert_int_equal(tenant_run(VICTIM, scrape_page, NULL), 0);
	assert_int_equal(tenant_run(0, scrape_page, NULL), 0);
	victim_goes_on(victim, 64);
	child_kill(pid);
}

/* Four users together use all connections except those that are reserved for
 * root. */
TEST(slow_users_do_not_block_scrapes_by_root)
{
	pid_t pid[5];

	attack_needs_root();
	for (unsigned i = 0; i < 5; i++)
		pid[i] = tenant_begin(VICTIM + 1 + i, stay_slow, NULL);
	usleep(300000);
	assert_int_equal(tenant_run(0, scrape_page, NULL), 0);
	victim_goes_on(victim, 64);
	for (unsigned i = 0; i < 5; i++)
		child_kill(pid[i]);
}

TEST(endless_large_requests_do_not_block_scrapes)
{
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, ask_for_all, NULL);
	usleep(300000);
	assert_int_equal(tenant_run(VICTIM, scrape_page, NULL), 0);
	victim_goes_on(victim, 64);
	child_kill(pid);
}

struct test_group test_group = { setup, victim_teardown };
