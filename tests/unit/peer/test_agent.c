/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/agent.h under a broker, with an agent that the test plays: what it is
 * told, whose hint is whose, and that it may come and go at any time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "rig.h"

static char dir[64];
static int listener, agent;

static void path_of(const char *name, char *buf, size_t len)
{
	snprintf(buf, len, "%s/%s", dir, name);
}

static void make_hints(size_t bytes, uint32_t magic, mode_t mode)
{
	struct mpib_hint_header h = { .magic = magic,
				      .max_entries = MPIB_HINT_MAX_ENTRIES,
				      .version = MPIB_HINT_VERSION };
	char path[96];
	int fd;

	path_of(MPIB_AGENT_HINTS, path, sizeof(path));
	unlink(path);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(write(fd, &h, sizeof(h)), sizeof(h));
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

static void agent_up(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	path_of(MPIB_AGENT_SOCK, sun.sun_path, sizeof(sun.sun_path));
	unlink(sun.sun_path);
	listener = socket(AF_UNIX,
			  SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	assert_int_equal(listen(listener, 4), 0);
	agent = -1;
}

static void (*before_connect)(void);

int __real_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (addr->sa_family == AF_UNIX && before_connect)
		before_connect();
	return __real_connect(fd, addr, len);
}

static void agent_down(void)
{
	if (agent >= 0)
		close(agent);
	if (listener >= 0)
		close(listener);
	agent = listener = -1;
}

static int setup(void **state)
{
	struct rig *rig;

	rig_setup(state);
	rig = *state;
	snprintf(dir, sizeof(dir), "/tmp/mpib-agent-XXXXXX");
	assert_non_null(mkdtemp(dir));
	rig->agent_dir = dir;
	listener = agent = -1;
	for (unsigned n = 0; n < NODES; n++)
		rig->sout[n] = 0x0a000001u + n;
	return 0;
}

static int teardown(void **state)
{
	char path[96];
	int rc;

	agent_down();
	rc = rig_teardown(state);
	path_of(MPIB_AGENT_SOCK, path, sizeof(path));
	unlink(path);
	path_of(MPIB_AGENT_HINTS, path, sizeof(path));
	unlink(path);
	rmdir(dir);
	return rc;
}

/* The proxy called; false: it did not. */
static bool take_call(void)
{
	if (agent >= 0)
		close(agent);
	agent = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return agent >= 0;
}

static bool next(struct mpib_agent_request *r)
{
	ssize_t n = recv(agent, r, sizeof(*r), MSG_DONTWAIT);

	if (n > 0)
		assert_int_equal(n, sizeof(*r));
	return n > 0;
}

static void answer(int32_t status, uint32_t slot)
{
	struct mpib_agent_response r = { .status = status, .hint_slot = slot };

	assert_int_equal(send(agent, &r, sizeof(r), MSG_NOSIGNAL), sizeof(r));
}

static uint32_t hint_of(const struct client *c, uint32_t index)
{
	return fake_conn(&c->engine_client, index)->hint;
}

struct ends {
	struct client *a, *b;
};

/* The first node has the agent; the other looks for none. */
static struct ends nodes_up(struct rig *rig)
{
	struct ends e;

	rig_up(rig, 0);
	rig->agent_dir = NULL;
	rig_up(rig, 1);
	e.a = rig_client(rig, 0, 1000, 0);
	e.b = rig_client(rig, 1, 1000, 0);
	return e;
}

/* One that was just made is registered with the node's own addresses first, by
 * whichever end it is, follows its slot, and is forgotten when it is closed. */
static void follow_to_its_end(struct rig *rig, struct client *c, uint32_t index)
{
	struct mpib_agent_request r, bye;

	assert_true(take_call());
	assert_true(next(&r));
	assert_int_equal(r.type, MPIB_AGENT_REGISTER);
	assert_int_equal(r.conn_id >> 16, getpid());
	assert_int_equal(r.sout_src_ip, htonl(0x0a000001));
	assert_int_equal(r.sout_dst_ip, htonl(0x0a000002));
	assert_false(next(&bye));
	assert_int_equal(hint_of(c, index), 0);
	answer(0, 17);
	rig_settle(rig);
	assert_int_equal(hint_of(c, index), 17 + 1);

	mpib_broker_drop(c->node->broker, &c->client, index);
	rig_settle(rig);
	assert_true(next(&bye));
	assert_int_equal(bye.type, MPIB_AGENT_DEREGISTER);
	assert_int_equal(bye.conn_id, r.conn_id);
}

static struct ends nodes_up_with_agent(struct rig *rig)
{
	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
	agent_up();
	return nodes_up(rig);
}

static void a_sending_connection_is_registered_until_it_closes(void **state)
{
	struct ends e = nodes_up_with_agent(*state);

	rig_connect(*state, e.a, 3, e.b, 4);
	follow_to_its_end(*state, e.a, 3);
}

static void a_receiving_connection_is_registered_too(void **state)
{
	struct ends e = nodes_up_with_agent(*state);

	rig_connect(*state, e.b, 5, e.a, 6);
	follow_to_its_end(*state, e.a, 6);
}

static void answers_belong_to_requests_in_order(void **state)
{
	struct rig *rig = *state;
	struct mpib_agent_request r[3], bye;
	struct ends e;

	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
	agent_up();
	e = nodes_up(rig);
	for (uint32_t i = 0; i < 3; i++)
		rig_connect(rig, e.a, i, e.b, i);
	assert_true(take_call());
	for (uint32_t i = 0; i < 3; i++)
		assert_true(next(&r[i]));
	assert_true(r[0].conn_id != r[1].conn_id &&
		    r[1].conn_id != r[2].conn_id);
	/* The first closes before it is answered. */
	mpib_broker_drop(e.a->node->broker, &e.a->client, 0);
	rig_settle(rig);
	assert_false(next(&bye));
	answer(0, 10);
	answer(0, 11);
	answer(-ENOSPC, 0);
	rig_settle(rig);
	assert_int_equal(hint_of(e.a, 1), 11 + 1);
	assert_int_equal(hint_of(e.a, 2), 0);
	assert_true(next(&bye));
	assert_int_equal(bye.conn_id, r[0].conn_id);

	/* What was refused for want of slots is asked for again. */
	rig_pass(rig, 2 * MPIB_SEC);
	assert_true(next(&bye));
	assert_int_equal(bye.type, MPIB_AGENT_REGISTER);
	assert_int_equal(bye.conn_id, r[2].conn_id);
	answer(0, 12);
	rig_settle(rig);
	assert_int_equal(hint_of(e.a, 2), 12 + 1);
}

static void an_agent_may_leave_and_come_back(void **state)
{
	struct rig *rig = *state;
	struct mpib_agent_request r;
	struct ends e;

	e = nodes_up(rig); /* there is none at first */
	rig_connect(rig, e.a, 0, e.b, 0);
	for (unsigned i = 0; i < 3; i++) {
		make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
		agent_up();
		rig_pass(rig, 2 * MPIB_SEC);
		assert_true(take_call());
		assert_true(next(&r));
		answer(0, i);
		rig_settle(rig);
		assert_int_equal(hint_of(e.a, 0), i + 1);
		agent_down();
		rig_settle(rig);
		assert_int_equal(hint_of(e.a, 0), 0);
	}
}

/* Whether the file is, in this process. */
static bool mapped(const struct stat *st)
{
	char line[512], inode[32];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	snprintf(inode, sizeof(inode), " %llu ",
		 (unsigned long long)st->st_ino);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, inode) && strstr(line, dir);
	fclose(f);
	return found;
}

/* The one before was killed, and its hints are still there. */
static void another_agent_comes(void)
{
	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
	agent_up();
	before_connect = NULL;
}

static void hints_of_one_before_are_not_followed(void **state)
{
	char path[96];
	struct stat now;

	path_of(MPIB_AGENT_HINTS, path, sizeof(path));
	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
	before_connect = another_agent_comes;
	nodes_up(*state);
	rig_pass(*state, 2 * MPIB_SEC);
	assert_int_equal(stat(path, &now), 0);
	assert_true(take_call() && mapped(&now));
}

static void an_agent_that_answers_nonsense_is_left(void **state)
{
	static const uint32_t slot[] = { MPIB_HINT_MAX_ENTRIES, UINT32_MAX };
	struct rig *rig = *state;
	struct mpib_agent_request r;
	struct ends e;

	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
	agent_up();
	e = nodes_up(rig);
	rig_connect(rig, e.a, 0, e.b, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(take_call());
		assert_true(next(&r));
		answer(0, slot[i]);
		rig_settle(rig);
		assert_int_equal(hint_of(e.a, 0), 0);
		rig_pass(rig, 2 * MPIB_SEC);
	}
	assert_true(take_call());
	answer(0, 1);
	answer(0, 1); /* to no question */
	rig_settle(rig);
	assert_int_equal(hint_of(e.a, 0), 0);
}

static void what_others_could_write_is_not_trusted(void **state)
{
	struct rig *rig = *state;

	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0600);
	agent_up();
	assert_int_equal(chmod(dir, 0777), 0);
	nodes_up(rig);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(take_call());
	assert_int_equal(mpib_agent_dir_open(dir), -EPERM);

	assert_int_equal(chmod(dir, 0755), 0);
	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0620);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(take_call());

	make_hints(sizeof(struct mpib_hint_shm) - 1, MPIB_HINT_MAGIC, 0600);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(take_call());

	make_hints(sizeof(struct mpib_hint_shm), 0x48495049, 0600);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(take_call());

	make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC, 0644);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_true(take_call());
}

static void the_layout_is_the_agents_contract(void **state)
{
	struct mpib_hint_entry e = { 0 };

	(void)state;
	assert_int_equal(sizeof(struct mpib_hint_shm), 4112);
	assert_int_equal(MPIB_HINT_MAGIC, 0x4D504948);
	mpib_hint_write(&e, 300);
	assert_int_equal(e.seq, 2);
	assert_int_equal(mpib_hint_read(&e, 0), 300);
	e.seq = 7; /* a writer died here */
	e.sup_bw = 9;
	assert_int_equal(mpib_hint_read(&e, 300), 300);
	mpib_hint_write(&e, 400);
	assert_int_equal(e.seq, 8);
	assert_int_equal(mpib_hint_read(&e, 300), 400);
}

#define AGENT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(a_sending_connection_is_registered_until_it_closes),
		AGENT_TEST(a_receiving_connection_is_registered_too),
		AGENT_TEST(answers_belong_to_requests_in_order),
		AGENT_TEST(an_agent_may_leave_and_come_back),
		AGENT_TEST(hints_of_one_before_are_not_followed),
		AGENT_TEST(an_agent_that_answers_nonsense_is_left),
		AGENT_TEST(what_others_could_write_is_not_trusted),
		cmocka_unit_test(the_layout_is_the_agents_contract),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
