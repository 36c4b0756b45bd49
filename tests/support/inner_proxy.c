/* SPDX-License-Identifier: Apache-2.0 */
#include "inner_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "addr.h"
#include "base/log.h"
#include "scratch.h"
#include "test.h"

struct mpib_proxy inner;

void inner_set(const char *section, const char *key, const char *value)
{
	const struct mpib_setting *s = mpib_config_find(section, key);
	char why[MPIB_WHY_MAX];

	assert_non_null(s);
	assert_int_equal(mpib_config_set(&inner.cfg, s, value, "test", why), 0);
}

static void set_rail(const char *key, unsigned host)
{
	uint32_t a = test_addr(host);
	char text[64];

	snprintf(text, sizeof(text), "soft:%u.%u.%u.%u", a >> 24, a >> 16 & 255,
		 a >> 8 & 255, a & 255);
	inner_set("hca", key, text);
}

int inner_init(void **state)
{
	if (scratch_make(state))
		return -1;
	mpib_log_set_level(MPIB_LOG_ERROR);
	mpib_config_init(&inner.cfg);
	snprintf(inner.cfg.run_dir, sizeof(inner.cfg.run_dir), "%s",
		 scratch_path("run"));
	set_rail("sout", 1);
	set_rail("sup", 2);
	return 0;
}

int inner_start(void)
{
	char why[MPIB_WHY_MAX];

	if (mpib_config_finish(&inner.cfg, why) == 0 &&
	    mpib_proxy_start(&inner, why) == 0)
		return 0;
	fprintf(stderr, "%s\n", why);
	return -1;
}

int inner_stop(void **state)
{
	mpib_proxy_stop(&inner);
	return scratch_remove(state);
}

void inner_turn(void)
{
	assert_true(mpib_loop_turn(&inner.loop, MPIB_FOREVER) >= 0);
}

void inner_tell(int sock, const struct mpib_ctl_header *h)
{
	assert_int_equal(mpib_message_send(sock, h, NULL, 0), 0);
}

void inner_hear(int sock, struct mpib_message *m)
{
	int rc;

	while ((rc = mpib_message_recv(sock, m)) == -EAGAIN)
		inner_turn();
	assert_int_equal(rc, 1);
	mpib_message_close_fds(m);
}

int inner_hear_status(int sock)
{
	struct mpib_message m;

	inner_hear(sock, &m);
	return m.h.status;
}

int inner_attach(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.name = "tester",
	};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_CONTROL_SOCK,
		 inner.cfg.run_dir);
	assert_int_equal(connect(sock, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	inner_tell(sock, &hello.h);
	assert_int_equal(inner_hear_status(sock), 0);
	return sock;
}
