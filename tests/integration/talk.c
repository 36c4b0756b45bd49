/* SPDX-License-Identifier: Apache-2.0 */
#include <mpib/client.h>
#include <sys/socket.h>
/* cmocka needs the headers above this line. */
#include "talk.h"
#include "test.h"

struct node talk_node;

static const char *const entries[] = { "attached",     "leaving",
				       "regions",      "registered_bytes",
				       "mapped_bytes", "clients" };

int talk_start(void **state)
{
	node_start(&talk_node, 2, "--quota-memory", "64M", NULL);
	return 0;
}

int talk_stop(void **state)
{
	node_stop(&talk_node);
	return 0;
}

/* The teardown of each test, see talk.h. */
int talk_nothing_is_left(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = talk_node.dir };
	struct mpib_client *c;

	assert_int_equal(mpib_attach(&opts, &c), 0);
	mpib_detach(c);
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		node_until_usage(&talk_node, entries[i], 0);
	return 0;
}

int talk_dial(void)
{
	return node_dial(&talk_node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
}

/* Send raw bytes. */
void talk_tell(int sock, const void *msg, size_t len)
{
	assert_int_equal(send(sock, msg, len, MSG_NOSIGNAL), (ssize_t)len);
}

void talk_tell_fd(int sock, const void *msg, int fd)
{
	assert_int_equal(mpib_message_send(sock, msg, &fd, 1), 0);
}

/* Read the next answer. Return the message's length, or 0 for a hang-up. */
size_t talk_hear(int sock, struct mpib_message *m)
{
	char byte;
	int rc;

	/* mpib_message_recv() does not block, so wait here until data
	 * arrives. */
	if (recv(sock, &byte, 1, MSG_PEEK) <= 0)
		return 0;
	rc = mpib_message_recv(sock, m);
	return rc == 1 ? m->len : 0;
}

int talk_hear_status(int sock, uint32_t type, uint32_t id)
{
	struct mpib_message m;

	assert_true(talk_hear(sock, &m) >= sizeof(m.h));
	assert_int_equal(m.h.type, type);
	assert_int_equal(m.h.id, id);
	mpib_message_close_fds(&m);
	return m.h.status;
}

void talk_hello(int sock, uint32_t version)
{
	struct mpib_ctl_hello h = {
		.h = { .type = MPIB_CTL_HELLO, .id = 5, .len = sizeof(h) },
		.version = version,
		.name = "tester",
	};

	talk_tell(sock, &h, sizeof(h));
}

int talk_attach(void)
{
	int sock = talk_dial();

	talk_hello(sock, MPIB_ABI_VERSION);
	assert_int_equal(talk_hear_status(sock, MPIB_CTL_HELLO, 5), 0);
	return sock;
}
