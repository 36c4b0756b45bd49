/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/web/listen.h: what is listened on. Whom an address is for, and who is
 * answered there, is test_access.c's. */
#include "web/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "config/config.h"
#include "test.h"

static void assert_refused(const char *text, int error)
{
	char address[32], why[MPIB_WHY_MAX] = "";
	struct sockaddr_in own;
	int fd = mpib_http_listen(text, &own, address, sizeof(address), why);

	if (fd != -error)
		fail_msg("\"%s\" gives %d", text, fd);
	assert_non_null(strstr(why, "metrics.listen = \""));
	assert_non_null(strchr(why, '('));
}

TEST(a_loopback_port_is_listened_on)
{
	char address[32], again[32], why[MPIB_WHY_MAX];
	struct sockaddr_in own;
	int fd = mpib_http_listen("127.46.9.1:0", &own, address,
				  sizeof(address), why);

	assert_true(fd >= 0);
	assert_int_equal(ntohl(own.sin_addr.s_addr), 0x7f2e0901);
	assert_int_equal(ntohs(own.sin_port), atoi(address + 11));
	assert_int_equal(strncmp(address, "127.46.9.1:", 11), 0);
	assert_string_not_equal(address, "127.46.9.1:0");
	assert_refused(address, EADDRINUSE);
	close(fd);
	fd = mpib_http_listen(address, &own, again, sizeof(again), why);
	assert_true(fd >= 0);
	assert_string_equal(address, again);
	close(fd);
}

TEST(nothing_else_is)
{
	static const char *const bad[] = {
		"",
		":",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:x",
		"127.0.0.1:65536",
		"localhost:9495",
		"127.0.0.1:-1",
		":9495",
		"127.0.0.1:9495 ",
		"[::]:9495",
		"127.0.0.256:1",
		"1270.0.0.1111111111111111:1",
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_refused(bad[i], EINVAL);
}
