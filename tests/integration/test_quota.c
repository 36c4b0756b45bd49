/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test the quotas of a real proxy. A request beyond a quota is refused with the
 * quota's name. After the user has released something, the user can request as
 * much again. Another user is not affected.
 */
#include <errno.h>
#include <grp.h>
#include <mpib/client.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/message.h"
#include "node.h"
#include "test.h"

#define NOBODY 65534

static struct node node;

static int stop(void **state)
{
	node_stop(&node);
	return 0;
}

static void start(const char *flag, const char *value)
{
	node_start(&node, 5, "--run-group", "nogroup", flag, value, NULL);
}

static int attach(struct mpib_client **c)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };

	return mpib_attach(&opts, c);
}

static struct mpib_client *attached(void)
{
	struct mpib_client *c;

	assert_int_equal(attach(&c), 0);
	return c;
}

/* Run `fn` as another user in a child process. */
static void as_nobody(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
			_exit(100);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Attach, allocate memory, listen and accept: everything that the proxy has
 * just refused to the first user. */
static int use_a_little_of_all(void)
{
	struct mpib_listener *l;
	struct mpib_handle h;
	struct mpib_conn *conn;
	struct mpib_client *c;

	if (attach(&c) < 0)
		return 1;
	if (!mpib_mem_alloc(c, 1 << 20))
		return 2;
	if (mpib_listen(c, &h, &l) < 0)
		return 3;
	if (mpib_accept(l, &conn) < 0)
		return 4;
	mpib_detach(c);
	return 0;
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip_as("another user needs root");
}

static void attach_two_at_most(struct mpib_client *c[2])
{
	struct mpib_client *more;

	c[0] = attached();
	c[1] = attached();
	assert_int_equal(attach(&more), -EDQUOT);
	assert_in(mpib_strerror(), "quota.clients = 2");
}

#define CASE(name) TEST_OF(name, NULL, stop)

CASE(the_number_of_a_users_clients_is_limited)
{
	struct mpib_client *c[2];

	start("--quota-clients", "2");
	attach_two_at_most(c);
	mpib_detach(c[1]);
	node_until_usage(&node, "attached", 1);
	c[1] = attached();
	mpib_detach(c[0]);
	mpib_detach(c[1]);
}

CASE(a_user_gets_at_most_a_quarter_of_limit_clients)
{
	struct mpib_client *c[2];

	start("--limit-clients", "8");
	attach_two_at_most(c);
	mpib_detach(c[0]);
	mpib_detach(c[1]);
}

CASE(the_staging_memory_of_a_user_is_limited)
{
	struct mpib_client *a, *b;
	void *p;

	start("--quota-memory", "3M");
	a = attached();
	b = attached();
	p = mpib_mem_alloc(a, 2 << 20);
	assert_non_null(p);
	/* The quota applies to all clients of a user together. */
	assert_null(mpib_mem_alloc(b, 2 << 20));
	assert_int_equal(errno, EDQUOT);
	assert_in(mpib_strerror(), "quota.memory = 3145728");
	mpib_mem_free(a, p);
	assert_non_null(mpib_mem_alloc(b, 2 << 20));
	mpib_detach(a);
	mpib_detach(b);
}

/* The proxy refuses messages beyond the quota. If the client continues to send,
 * the proxy disconnects it. */
CASE(the_control_messages_of_a_user_are_limited)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
	};
	struct mpib_ctl_header h = { .type = MPIB_CTL_DEVICE,
				     .len = sizeof(h) };
	unsigned refused = 0, other = 0;
	struct mpib_message m;
	int sock, rc = 1;

	start("--quota-messages", "50");
	sock = node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	assert_int_equal(mpib_message_send(sock, &hello.h, NULL, 0), 0);
	while (rc > 0) {
		char byte;

		if (recv(sock, &byte, 1, MSG_PEEK) <= 0)
			break;
		rc = mpib_message_recv(sock, &m);
		if (rc <= 0)
			break;
		mpib_message_close_fds(&m);
		if (m.h.status == -EDQUOT) {
			refused++;
			assert_non_null(strstr(
				((struct mpib_ctl_error *)(void *)m.bytes)->why,
				"quota.messages = 50"));
		} else {
			other++;
		}
		if (mpib_message_send(sock, &h, NULL, 0) < 0)
			break;
	}
	close(sock);
	assert_true(refused >= 50);
	assert_true(other >= 50);
	node_until_usage(&node, "attached", 0);
}

CASE(another_user_has_its_own_quotas)
{
	struct mpib_client *a;
	struct mpib_listener *l;
	struct mpib_conn *conn;
	struct mpib_handle h;

	need_root();
	node_start(&node, 5, "--run-group", "nogroup", "--quota-clients", "1",
		   "--quota-memory", "1M", "--quota-listeners", "1",
		   "--quota-connections", "1", NULL);
	a = attached();
	assert_non_null(mpib_mem_alloc(a, 1 << 20));
	assert_int_equal(mpib_listen(a, &h, &l), 0);
	assert_int_equal(mpib_accept(l, &conn), 0);
	as_nobody(use_a_little_of_all);
	mpib_detach(a);
}
