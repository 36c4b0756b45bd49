/* SPDX-License-Identifier: Apache-2.0 */
/* bench/perf/hosts/dial.c: at which addresses mpib-perf's links are. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/hosts/link.h"
#include "perf/world.h"
#include "test.h"

/* What calls of connect() answer; when these are over, the kernel does. */
static int answers[8], answered, asked;

int connect(int fd, const struct sockaddr *at, socklen_t len)
{
	if (asked == answered)
		return (int)syscall(SYS_connect, fd, at, len);
	errno = answers[asked];
	return answers[asked++] ? -1 : 0;
}

/* Any name has two addresses. */
int getaddrinfo(const char *name, const char *port,
		const struct addrinfo *hints, struct addrinfo **all)
{
	static struct sockaddr_in at = { .sin_family = AF_INET };
	static struct addrinfo second = { .ai_family = AF_INET,
					  .ai_socktype = SOCK_STREAM,
					  .ai_addr = (struct sockaddr *)&at,
					  .ai_addrlen = sizeof(at) };
	static struct addrinfo first;

	(void)name;
	(void)port;
	(void)hints;
	first = second;
	first.ai_next = &second;
	*all = &first;
	return 0;
}

void freeaddrinfo(struct addrinfo *all)
{
	(void)all;
}

double perf_now(void)
{
	return 0; /* it is never too late to try again */
}

void perf_link_ready(int fd)
{
	(void)fd;
}

static int dial(const int *what, int n)
{
	int fd;

	memcpy(answers, what, (size_t)n * sizeof(*what));
	answered = n;
	asked = 0;
	fd = perf_link_dial("name", 9, 1);
	assert_int_equal(asked, answered);
	if (fd >= 0)
		close(fd);
	return fd;
}

static void who_may_only_be_late_is_tried_again(void **state)
{
	static const int first[] = { ECONNREFUSED, ENETUNREACH, 0 };
	static const int second[] = { ENETUNREACH, ECONNREFUSED, ENETUNREACH,
				      0 };
	static const int never[] = { ENETUNREACH, EHOSTUNREACH };

	assert_true(dial(first, 3) >= 0);
	assert_true(dial(second, 4) >= 0);
	assert_int_equal(dial(never, 2), -1);
}

static bool reaches(const void *at, socklen_t len)
{
	const struct sockaddr *addr = at;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && connect(fd, addr, len) == 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

static void all_addresses_are_those_of_ipv6_too(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int port = 0, fd = perf_link_listen(NULL, &port);

	asked = answered = 0;
	assert_true(fd >= 0);
	v4.sin_port = v6.sin6_port = htons((uint16_t)port);
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(reaches(&v4, sizeof(v4)));
	assert_int_equal(reaches(&v6, sizeof(v6)), has_ipv6());
	/* Not another one at the same port, either. */
	assert_int_equal(perf_link_listen(NULL, &port), -1);
	close(fd);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(who_may_only_be_late_is_tried_again),
	cmocka_unit_test(all_addresses_are_those_of_ipv6_too),
	{ 0 },
};
