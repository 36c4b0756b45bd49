/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of agent/agent.h, the proxy's side of the agent protocol. The test acts
 * as the agent. The tests check what the proxy sends to the agent, which hint a
 * connection uses, and that an agent may start and stop at any time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <mpib/agent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_rig.h"
#include "scratch.h"
#include "test.h"

static void (*before_connect)(void);

WRAPS(int, connect, int fd, const struct sockaddr *addr, socklen_t len)
{
	if (addr->sa_family == AF_UNIX && before_connect)
		before_connect();
	return __real_connect(fd, addr, len);
}

/* Check that a new connection is registered with the node's own address as
 * source, uses the hint of its slot, and is deregistered when it is closed. */
static void follow_to_its_end(struct rig *rig, struct client *c, uint32_t index)
{
	struct mpib_agent_request r, bye;

	assert_true(agent_rig_take_call());
	assert_true(agent_rig_next(&r));
	assert_int_equal(r.type, MPIB_AGENT_REGISTER);
	assert_int_equal(r.conn_id >> 16, getpid());
	assert_int_equal(r.sout_src_ip, htonl(0x0a000001));
	assert_int_equal(r.sout_dst_ip, htonl(0x0a000002));
	assert_false(agent_rig_next(&bye));
	assert_int_equal(agent_rig_hint_of(c, index), 0);
	agent_rig_answer(0, 17);
	rig_settle(rig);
	assert_int_equal(agent_rig_hint_of(c, index), 17 + 1);

	mpib_broker_drop(c->node->broker, &c->client, index);
	rig_settle(rig);
	assert_true(agent_rig_next(&bye));
	assert_int_equal(bye.type, MPIB_AGENT_DEREGISTER);
	assert_int_equal(bye.conn_id, r.conn_id);
}

#define CASE(name) RIG_TEST_OF(name, agent_rig_setup, agent_rig_teardown)

CASE(a_sending_connection_is_registered_until_it_closes)
{
	struct agent_rig_ends e = agent_rig_nodes_up_with_agent(rig);

	rig_connect(rig, e.a, 3, e.b, 4);
	follow_to_its_end(rig, e.a, 3);
}

/* MPIB_AGENT_ADAPTIVE tells the agent that the proxy knows MPIB_HINT_OWN. */
CASE(a_proxy_reports_that_it_can_split_by_itself)
{
	struct mpib_agent_request r;
	struct agent_rig_ends e;

	rig->adaptive = true;
	e = agent_rig_nodes_up_with_agent(rig);
	rig_connect(rig, e.a, 3, e.b, 4);
	assert_true(agent_rig_take_call());
	assert_true(agent_rig_next(&r));
	assert_int_equal(r.flags, MPIB_AGENT_ADAPTIVE);
}

/* A receiving connection has nothing to split, and must not take one of the few
 * slots. */
CASE(a_receiving_connection_uses_no_hint)
{
	struct agent_rig_ends e = agent_rig_nodes_up_with_agent(rig);
	struct mpib_agent_request r;

	rig_connect(rig, e.b, 5, e.a, 6);
	assert_true(agent_rig_take_call());
	assert_false(agent_rig_next(&r));
	assert_int_equal(agent_rig_hint_of(e.a, 6), 0);
	rig_connect(rig, e.a, 3, e.b, 4);
	assert_true(agent_rig_next(&r));
	assert_false(agent_rig_next(&r));
}

CASE(a_longer_hint_file_has_exactly_the_slots_that_fit)
{
	static const struct {
		uint32_t more, slot;
		bool good;
	} row[] = {
		{ 0, MPIB_HINT_MAX_ENTRIES - 1, true },
		{ 0, MPIB_HINT_MAX_ENTRIES, false },
		{ 5, MPIB_HINT_MAX_ENTRIES + 4, true },
		{ 5, MPIB_HINT_MAX_ENTRIES + 5, false },
		{ MPIB_HINT_MORE_MAX, MPIB_HINT_SLOTS_MAX - 1, true },
		{ MPIB_HINT_MORE_MAX, MPIB_HINT_SLOTS_MAX, false },
		{ 1, 0, true }, /* a short file replaces the long one */
	};
	struct mpib_agent_request r;
	struct agent_rig_ends e;

	e = agent_rig_nodes_up(rig);
	rig_connect(rig, e.a, 0, e.b, 0);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		agent_rig_make_longer_hints(row[i].more, 0);
		agent_rig_up();
		rig_pass(rig, 2 * MPIB_SEC);
		assert_true(agent_rig_take_call());
		assert_true(agent_rig_next(&r));
		agent_rig_answer(0, row[i].slot);
		rig_settle(rig);
		assert_int_equal(agent_rig_hint_of(e.a, 0),
				 row[i].good ? row[i].slot + 1 : 0);
		agent_rig_down();
		rig_settle(rig);
	}
}

CASE(answers_are_matched_to_requests_in_order)
{
	struct mpib_agent_request r[3], bye;
	struct agent_rig_ends e;

	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0600);
	agent_rig_up();
	e = agent_rig_nodes_up(rig);
	for (uint32_t i = 0; i < 3; i++)
		rig_connect(rig, e.a, i, e.b, i);
	assert_true(agent_rig_take_call());
	for (uint32_t i = 0; i < 3; i++)
		assert_true(agent_rig_next(&r[i]));
	assert_true(r[0].conn_id != r[1].conn_id &&
		    r[1].conn_id != r[2].conn_id);
	/* Close the first connection before its request is answered. */
	mpib_broker_drop(e.a->node->broker, &e.a->client, 0);
	rig_settle(rig);
	assert_false(agent_rig_next(&bye));
	agent_rig_answer(0, 10);
	agent_rig_answer(0, 11);
	agent_rig_answer(-ENOSPC, 0);
	rig_settle(rig);
	assert_int_equal(agent_rig_hint_of(e.a, 1), 11 + 1);
	assert_int_equal(agent_rig_hint_of(e.a, 2), 0);
	assert_true(agent_rig_next(&bye));
	assert_int_equal(bye.conn_id, r[0].conn_id);

	/* The proxy repeats a request that the agent refused because no slot
	 * was free. */
	rig_pass(rig, 2 * MPIB_SEC);
	assert_true(agent_rig_next(&bye));
	assert_int_equal(bye.type, MPIB_AGENT_REGISTER);
	assert_int_equal(bye.conn_id, r[2].conn_id);
	agent_rig_answer(0, 12);
	rig_settle(rig);
	assert_int_equal(agent_rig_hint_of(e.a, 2), 12 + 1);
}

/* Return whether this process has mapped the file. */
static bool mapped(const struct stat *st)
{
	char line[512], inode[32];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	snprintf(inode, sizeof(inode), " %llu ",
		 (unsigned long long)st->st_ino);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, inode) && strstr(line, scratch);
	fclose(f);
	return found;
}

/* Start a new agent after the old agent was killed. The old agent has left its
 * hint file. */
static void another_agent_comes(void)
{
	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0600);
	agent_rig_up();
	before_connect = NULL;
}

CASE(hints_of_a_previous_agent_are_not_followed)
{
	struct stat now;

	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0600);
	before_connect = another_agent_comes;
	agent_rig_nodes_up(rig);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_int_equal(stat(scratch_path(MPIB_AGENT_HINTS), &now), 0);
	assert_true(agent_rig_take_call() && mapped(&now));
}

CASE(hints_that_other_users_could_write_are_not_trusted)
{
	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0600);
	agent_rig_up();
	assert_int_equal(chmod(scratch, 0777), 0);
	agent_rig_nodes_up(rig);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(agent_rig_take_call());
	assert_int_equal(mpib_agent_dir_open(scratch, MPIB_AGENT_NO_USER),
			 -EPERM);

	assert_int_equal(chmod(scratch, 0755), 0);
	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0620);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(agent_rig_is_heard());

	agent_rig_make_hints(sizeof(struct mpib_hint_shm) - 1, MPIB_HINT_MAGIC,
			     0600);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(agent_rig_is_heard());

	agent_rig_make_longer_hints(MPIB_HINT_MORE_MAX + 1, 0);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(agent_rig_is_heard());

	agent_rig_make_longer_hints(MPIB_HINT_MORE_MAX, -1);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(agent_rig_is_heard());

	agent_rig_make_hints(sizeof(struct mpib_hint_shm), 0x48495049, 0600);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_false(agent_rig_is_heard());

	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0644);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_true(agent_rig_is_heard());
}

TEST(the_layout_matches_the_agents_contract)
{
	struct mpib_hint_entry e = { 0 };

	assert_int_equal(mpib_hint_bytes(MPIB_HINT_MAX_ENTRIES), 4112);
	assert_int_equal(MPIB_HINT_MAGIC, 0x4D504948);
	mpib_hint_write(&e, 300);
	assert_int_equal(e.seq, 2);
	assert_int_equal(mpib_hint_read(&e, 0), 300);
	e.seq = 7; /* an agent died while it wrote */
	e.sup_bw = 9;
	assert_int_equal(mpib_hint_read(&e, 300), 300);
	mpib_hint_write(&e, 400);
	assert_int_equal(e.seq, 8);
	assert_int_equal(mpib_hint_read(&e, 300), 400);
}
