/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a real proxy: versions, hostile messages, memory that
 * is not what it claims, and clients that die. After each the ledger is zero
 * and a well-behaved client is served.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/message.h"
#include "node.h"

static struct node node;

static int start(void **state)
{
	(void)state;
	node_start(&node, 2, "--limit-memory", "64M", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	node_stop(&node);
	return 0;
}

static const char *const entries[] = { "attached",     "leaving",
				       "regions",      "registered_bytes",
				       "mapped_bytes", "sessions" };

/* After each test. */
static int nothing_is_left(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };
	struct mpib_client *c;

	(void)state;
	assert_int_equal(mpib_attach(&opts, &c), 0);
	mpib_detach(c);
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		node_until_ledger(&node, entries[i], 0);
	return 0;
}

static int dial(void)
{
	return node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
}

/* Send bytes as they are. */
static void tell(int sock, const void *msg, size_t len)
{
	assert_int_equal(send(sock, msg, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void tell_fd(int sock, const void *msg, int fd)
{
	assert_int_equal(mpib_message_send(sock, msg, &fd, 1), 0);
}

/* The next answer, which may be a hang-up: returns its length, 0 for that. */
static size_t hear(int sock, struct mpib_message *m)
{
	char byte;
	int rc;

	/* Blocks until something is there. */
	if (recv(sock, &byte, 1, MSG_PEEK) <= 0)
		return 0;
	rc = mpib_message_recv(sock, m);
	return rc == 1 ? m->len : 0;
}

static int hear_status(int sock, uint32_t type, uint32_t id)
{
	struct mpib_message m;

	assert_true(hear(sock, &m) >= sizeof(m.h));
	assert_int_equal(m.h.type, type);
	assert_int_equal(m.h.id, id);
	mpib_message_close_fds(&m);
	return m.h.status;
}

static void hello(int sock, uint32_t version)
{
	struct mpib_ctl_hello h = {
		.h = { .type = MPIB_CTL_HELLO, .id = 5, .len = sizeof(h) },
		.version = version,
		.name = "tester",
	};

	tell(sock, &h, sizeof(h));
}

static int attach_raw(void)
{
	int sock = dial();

	hello(sock, MPIB_ABI_VERSION);
	assert_int_equal(hear_status(sock, MPIB_CTL_HELLO, 5), 0);
	return sock;
}

static void another_version_is_refused_and_both_are_named(void **state)
{
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)m.bytes;
	int sock = dial();

	(void)state;
	hello(sock, 77);
	assert_true(hear(sock, &m) == sizeof(*e));
	assert_int_equal(m.h.status, -EPROTO);
	assert_non_null(strstr(e->why, "version 77"));
	assert_non_null(strstr(e->why, "version 1 "));
	assert_int_equal(hear(sock, &m), 0);
	close(sock);
}

static void a_hello_of_another_size_is_refused_in_words(void **state)
{
	struct {
		struct mpib_ctl_hello hello;
		char more[100];
	} big = { .hello = {
			  .h = { .type = MPIB_CTL_HELLO, .len = sizeof(big) },
			  .version = 2 } };
	struct mpib_ctl_header bare = { .type = MPIB_CTL_HELLO,
					.len = sizeof(bare) };
	int sock = dial();

	(void)state;
	tell(sock, &big, sizeof(big));
	assert_int_equal(hear_status(sock, MPIB_CTL_HELLO, 0), -EPROTO);
	close(sock);
	sock = dial();
	tell(sock, &bare, sizeof(bare));
	assert_int_equal(hear_status(sock, MPIB_CTL_HELLO, 0), -EPROTO);
	close(sock);
}

static void the_welcome_brings_four_sealed_descriptors(void **state)
{
	struct mpib_message m;
	const struct mpib_ctl_welcome *w = (const void *)m.bytes;
	int sock = dial();

	(void)state;
	hello(sock, MPIB_ABI_VERSION);
	assert_true(hear(sock, &m) == sizeof(*w));
	assert_int_equal(w->h.status, 0);
	assert_int_equal(w->rails, 2);
	assert_string_equal(w->rail[0].name, node.sout);
	assert_int_equal(w->rail[0].up, 1);
	assert_int_equal(m.fds, 4);
	for (unsigned i = 0; i < 3; i++) {
		int seals = fcntl(m.fd[i], F_GET_SEALS);

		assert_true(seals & F_SEAL_SHRINK);
		assert_true(seals & F_SEAL_SEAL);
	}
	/* A client writes its submissions and nothing else. */
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, m.fd[0], 0),
			 MAP_FAILED);
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, m.fd[2], 0),
			 MAP_FAILED);
	mpib_message_close_fds(&m);
	close(sock);
}

static void a_second_hello_is_an_error_and_no_more(void **state)
{
	int sock = attach_raw();

	(void)state;
	hello(sock, MPIB_ABI_VERSION);
	assert_int_equal(hear_status(sock, MPIB_CTL_HELLO, 5), -EALREADY);
	close(sock);
}

static void whoever_speaks_before_hello_is_hung_up_on(void **state)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_LISTEN,
				     .len = sizeof(h) };
	struct mpib_message m;
	int sock = dial();

	(void)state;
	tell(sock, &h, sizeof(h));
	assert_int_equal(hear(sock, &m), 0);
	close(sock);
}

static void what_is_no_message_ends_the_client(void **state)
{
	static const char junk[2000];
	struct mpib_ctl_header lies = { .type = MPIB_CTL_LISTEN, .len = 500 };
	struct mpib_message m;
	int sock;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		sock = attach_raw();
		if (i == 0)
			tell(sock, junk, 3);
		else if (i == 1)
			tell(sock, junk, sizeof(junk));
		else
			tell(sock, &lies, sizeof(lies));
		assert_int_equal(hear(sock, &m), 0);
		close(sock);
	}
}

static void unknown_and_misshapen_requests_are_refused(void **state)
{
	struct mpib_ctl_id id = { .h = { .len = sizeof(id), .id = 9 } };
	static const struct {
		uint32_t type;
		int status;
	} cases[] = {
		{ 0, -ENOSYS },
		{ 11, -ENOSYS },
		{ UINT32_MAX, -ENOSYS },
		{ MPIB_CTL_POOL, -EINVAL }, /* same length, size 0 */
		{ MPIB_CTL_REG_FD, -EBADMSG },
		{ MPIB_CTL_DEREG, -ENOENT },
		{ MPIB_CTL_LISTEN, -EBADMSG },
		{ MPIB_CTL_CLOSE_LISTEN, -ENOENT },
		{ MPIB_CTL_CONNECT, -EBADMSG },
		{ MPIB_CTL_ACCEPT, -ENOENT }, /* same length */
		{ MPIB_CTL_CLOSE, -ENOENT },
	};
	int sock = attach_raw();

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		id.h.type = cases[i].type;
		tell(sock, &id, sizeof(id));
		assert_int_equal(hear_status(sock, cases[i].type, 9),
				 cases[i].status);
	}
	close(sock);
}

static void indices_out_of_range_are_refused(void **state)
{
	struct mpib_ctl_connect c = { .h = { .type = MPIB_CTL_CONNECT,
					     .len = sizeof(c) } };
	struct mpib_ctl_id id = { .h = { .len = sizeof(id) } };
	int sock = attach_raw();

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		c.conn = id.id = i == 0	  ? MPIB_CONNS_MAX
				 : i == 1 ? UINT32_MAX
					  : 1u << 31;
		tell(sock, &c, sizeof(c));
		assert_int_equal(hear_status(sock, MPIB_CTL_CONNECT, 0),
				 -EINVAL);
		id.h.type = MPIB_CTL_CLOSE;
		tell(sock, &id, sizeof(id));
		assert_int_equal(hear_status(sock, MPIB_CTL_CLOSE, 0), -ENOENT);
		id.h.type = MPIB_CTL_DEREG;
		tell(sock, &id, sizeof(id));
		assert_int_equal(hear_status(sock, MPIB_CTL_DEREG, 0), -ENOENT);
		id.h.type = MPIB_CTL_WHY;
		tell(sock, &id, sizeof(id));
		assert_int_equal(hear_status(sock, MPIB_CTL_WHY, 0), -EINVAL);
	}
	close(sock);
}

static void descriptors_nobody_asked_for_are_closed(void **state)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_LISTEN,
				     .len = sizeof(h) };
	char path[64], target[64];
	int sock = attach_raw(), pipefd[2];
	ssize_t n;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(pipe(pipefd), 0);
		tell_fd(sock, &h, pipefd[1]);
		assert_int_equal(hear_status(sock, MPIB_CTL_LISTEN, 0),
				 -EBADMSG);
		close(pipefd[0]);
		close(pipefd[1]);
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/200", node.pid);
	n = readlink(path, target, sizeof(target));
	assert_int_equal(n, -1);
	close(sock);
}

static int reg_fd(int sock, int fd, uint64_t offset, uint64_t size,
		  uint32_t flags)
{
	struct mpib_ctl_reg_fd r = {
		.h = { .type = MPIB_CTL_REG_FD, .id = 3, .len = sizeof(r) },
		.offset = offset,
		.size = size,
		.flags = flags
	};

	tell_fd(sock, &r, fd);
	return hear_status(sock, MPIB_CTL_REG_FD, 3);
}

static void memory_that_lies_is_refused(void **state)
{
	int sock = attach_raw(), open_fd, sealed, pipefd[2], null;

	(void)state;
	open_fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(open_fd, 65536), 0);
	assert_int_equal(ftruncate(sealed, 65536), 0);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(pipe(pipefd), 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(reg_fd(sock, open_fd, 0, 4096, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, pipefd[0], 0, 4096, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, null, 0, 4096, MPIB_REG_MEMFD), -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 0, 65537, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 65536, 1, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, sealed, UINT64_MAX, 2, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 0, 0, MPIB_REG_MEMFD), -EINVAL);
	assert_int_equal(reg_fd(sock, sealed, 0, UINT64_MAX, MPIB_REG_MEMFD),
			 -EDQUOT);
	assert_int_equal(reg_fd(sock, sealed, 0, 4096, 0), -EINVAL);
	assert_int_equal(reg_fd(sock, open_fd, 0, 4096, MPIB_REG_DMABUF),
			 -EPERM);
	assert_int_equal(reg_fd(sock, null, 0, 4096, MPIB_REG_DMABUF), -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 100, 5000, MPIB_REG_MEMFD), 0);
	assert_int_equal(node_ledger(&node, "registered_bytes"), 5000);
	close(open_fd);
	close(sealed);
	close(pipefd[0]);
	close(pipefd[1]);
	close(null);
	close(sock);
}

static int pool(int sock, uint64_t size, uint32_t *mr)
{
	struct mpib_ctl_pool p = {
		.h = { .type = MPIB_CTL_POOL, .id = 4, .len = sizeof(p) },
		.size = size
	};
	struct mpib_message m;
	const struct mpib_ctl_region *r = (const void *)m.bytes;

	tell(sock, &p, sizeof(p));
	assert_true(hear(sock, &m) >= sizeof(m.h));
	if (m.h.status == 0) {
		assert_int_equal(m.len, sizeof(*r));
		assert_int_equal(m.fds, 1);
		*mr = r->mr;
	}
	mpib_message_close_fds(&m);
	return m.h.status;
}

static int dereg(int sock, uint32_t mr)
{
	struct mpib_ctl_id id = {
		.h = { .type = MPIB_CTL_DEREG, .id = 6, .len = sizeof(id) },
		.id = mr
	};

	tell(sock, &id, sizeof(id));
	return hear_status(sock, MPIB_CTL_DEREG, 6);
}

static void pools_come_and_go_and_are_counted(void **state)
{
	uint32_t mr = 0, other = 0;
	int sock = attach_raw();

	(void)state;
	assert_int_equal(pool(sock, 5000, &mr), 0);
	assert_int_equal(node_ledger(&node, "registered_bytes"), 8192);
	assert_int_equal(pool(sock, 1, &other), 0);
	assert_int_not_equal(mr, other);
	assert_int_equal(node_ledger(&node, "regions"), 2);
	assert_int_equal(dereg(sock, mr), 0);
	assert_int_equal(dereg(sock, mr), -ENOENT);
	assert_int_equal(node_ledger(&node, "regions"), 1);
	close(sock);
}

static void a_region_of_another_client_is_out_of_reach(void **state)
{
	uint32_t mr = 0;
	int a = attach_raw(), b = attach_raw();

	(void)state;
	assert_int_equal(pool(a, 4096, &mr), 0);
	assert_int_equal(dereg(b, mr), -ENOENT);
	assert_int_equal(dereg(a, mr), 0);
	close(a);
	close(b);
}

static void memory_has_a_limit(void **state)
{
	uint32_t mr = 0;
	int sock = attach_raw();

	(void)state;
	assert_int_equal(pool(sock, 1ull << 50, &mr), -EDQUOT);
	assert_int_equal(pool(sock, 60 << 20, &mr), 0);
	assert_int_equal(pool(sock, 5 << 20, &mr), -EDQUOT);
	assert_int_equal(dereg(sock, mr), 0);
	assert_int_equal(pool(sock, 5 << 20, &mr), 0);
	close(sock);
}

static void whoever_reads_no_answers_is_dropped(void **state)
{
	struct mpib_ctl_header h = { .type = 99, .len = sizeof(h) };
	int sock = attach_raw(), sent = 0;

	(void)state;
	while (sent < 1000000 && send(sock, &h, sizeof(h), MSG_NOSIGNAL) > 0)
		sent++;
	/* It hung up, and never waited for us. */
	assert_true(sent < 1000000);
	close(sock);
}

static pid_t child_that(void (*act)(int ready))
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		act(ready[1]);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void attach_and_hold(int ready)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };
	struct mpib_client *c;
	struct mpib_listener *l;
	struct mpib_conn *tx, *rx;
	_Alignas(8) char handle[128];

	if (mpib_attach(&opts, &c) || !mpib_mem_alloc(c, 1 << 20) ||
	    mpib_listen(c, (struct mpib_handle *)(void *)handle, &l) ||
	    mpib_accept(l, &rx) ||
	    mpib_connect(c, (struct mpib_handle *)(void *)handle, -1, &tx))
		_exit(1);
	while (mpib_ready(tx) == 0 || mpib_ready(rx) == 0)
		usleep(100);
	if (mpib_ready(tx) != 1 || mpib_ready(rx) != 1 ||
	    write(ready, "x", 1) != 1)
		_exit(2);
	for (;;)
		pause();
}

static void a_killed_client_leaves_nothing(void **state)
{
	pid_t pid = child_that(attach_and_hold);

	(void)state;
	assert_int_equal(node_ledger(&node, "attached"), 1);
	assert_true(node_ledger(&node, "regions") >= 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	node_until_ledger(&node, "attached", 0);
}

static pid_t *orphan;

static void attach_fork_and_hold(int ready)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };
	struct mpib_client *c;
	pid_t pid;

	if (mpib_attach(&opts, &c))
		_exit(1);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		for (;;) /* with the socket */
			pause();
	}
	*orphan = pid;
	if (write(ready, "x", 1) != 1)
		_exit(2);
	for (;;)
		pause();
}

static void a_client_is_dead_although_its_child_holds_the_socket(void **state)
{
	pid_t pid;

	(void)state;
	orphan = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = child_that(attach_fork_and_hold);
	assert_int_equal(node_ledger(&node, "attached"), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(kill(*orphan, 0), 0);
	node_until_ledger(&node, "attached", 0);
	kill(*orphan, SIGKILL);
	munmap(orphan, 4096);
}

static void
a_detached_client_is_gone_although_its_child_has_the_socket(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };
	struct mpib_client *c;
	pid_t pid;

	(void)state;
	assert_int_equal(mpib_attach(&opts, &c), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	mpib_detach(c);
	node_until_ledger(&node, "attached", 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void many_come_and_go(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		struct mpib_client *c;

		assert_int_equal(mpib_attach(&opts, &c), 0);
		if (i % 2)
			assert_non_null(mpib_mem_alloc(c, 65536));
		mpib_detach(c);
	}
}

#define SESSION_TEST(f) cmocka_unit_test_teardown(f, nothing_is_left)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(another_version_is_refused_and_both_are_named),
		SESSION_TEST(a_hello_of_another_size_is_refused_in_words),
		SESSION_TEST(the_welcome_brings_four_sealed_descriptors),
		SESSION_TEST(a_second_hello_is_an_error_and_no_more),
		SESSION_TEST(whoever_speaks_before_hello_is_hung_up_on),
		SESSION_TEST(what_is_no_message_ends_the_client),
		SESSION_TEST(unknown_and_misshapen_requests_are_refused),
		SESSION_TEST(indices_out_of_range_are_refused),
		SESSION_TEST(descriptors_nobody_asked_for_are_closed),
		SESSION_TEST(memory_that_lies_is_refused),
		SESSION_TEST(pools_come_and_go_and_are_counted),
		SESSION_TEST(a_region_of_another_client_is_out_of_reach),
		SESSION_TEST(memory_has_a_limit),
		SESSION_TEST(whoever_reads_no_answers_is_dropped),
		SESSION_TEST(a_killed_client_leaves_nothing),
		SESSION_TEST(
			a_client_is_dead_although_its_child_holds_the_socket),
		SESSION_TEST(
			a_detached_client_is_gone_although_its_child_has_the_socket),
		SESSION_TEST(many_come_and_go),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
