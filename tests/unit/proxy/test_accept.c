/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/client/accept.c where it cannot even begin, and before a client's HELLO. */
#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"
#include "peer/internal.h"
#include "test.h"

static struct mpib_broker broker;

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void who_cannot_listen_keeps_no_descriptor(void **state)
{
	struct proxy_clients all;
	struct mpib_config cfg;
	struct mpib_loop loop;
	unsigned before;

	mpib_config_init(&cfg);
	assert_int_equal(mpib_loop_init(&loop), 0);
	before = descriptors();
	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, 1 << 20),
		-EBADF);
	assert_int_equal(descriptors(), before);
	mpib_loop_fini(&loop);
}

static int listen_at(struct sockaddr_un *sa, socklen_t *len)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* The kernel chooses a name. */
	assert_int_equal(bind(fd, (void *)sa, sizeof(sa->sun_family)), 0);
	*len = sizeof(*sa);
	assert_int_equal(getsockname(fd, (void *)sa, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static bool is_hung_up(int sock)
{
	char byte;

	return recv(sock, &byte, 1, MSG_DONTWAIT) == 0;
}

static void pass(struct mpib_loop *loop, unsigned s)
{
	mpib_loop_advance(loop, s * MPIB_SEC);
	mpib_loop_turn(loop, 0);
	mpib_loop_turn(loop, 0);
}

static void who_says_no_hello_in_5_s_is_hung_up_on(void **state)
{
	struct proxy_clients all;
	struct mpib_config cfg;
	struct mpib_loop loop;
	struct sockaddr_un sa;
	socklen_t len;
	int fd = listen_at(&sa, &len);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	mpib_config_init(&cfg);
	assert_int_equal(mpib_loop_init(&loop), 0);
	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, fd), 0);
	assert_int_equal(connect(sock, (void *)&sa, len), 0);
	while (all.usage.clients == 0)
		mpib_loop_turn(&loop, MPIB_FOREVER);
	pass(&loop, 4);
	assert_false(is_hung_up(sock));
	pass(&loop, 2);
	assert_true(is_hung_up(sock));
	close(sock);
	proxy_clients_stop(&all);
	proxy_clients_fini(&all);
	mpib_loop_fini(&loop);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(who_cannot_listen_keeps_no_descriptor),
	cmocka_unit_test(who_says_no_hello_in_5_s_is_hung_up_on),
	{ 0 },
};
