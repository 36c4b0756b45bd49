/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that speak other versions of the peer protocol, at a real broker. */
#include <arpa/inet.h>
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

/* A TCP connection to the broker of node 0, from an address of its own. */
static int call(struct rig *rig, struct in6_addr *from)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct sockaddr_in self = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	to.sin_addr.s_addr = htonl(0x7f170001u);
	to.sin_port = htons(mpib_broker_port(rig->node[0].broker));
	self.sin_addr.s_addr = htonl(0x7f170009u);
	*from = mpib_address_of_ip(self.sin_addr.s_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof(self)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* The socket of a caller that said HELLO with these versions, and what the
 * broker answered. */
static int greet_on(struct rig *rig, unsigned lowest, unsigned highest,
		    struct mpib_peer_msg *answer)
{
	struct mpib_peer_msg hello = { .type = MPIB_PEER_HELLO,
				       .magic = MPIB_PEER_MAGIC,
				       .version_min = (uint16_t)lowest,
				       .version = (uint16_t)highest,
				       .node = { .port = 1, .boot = 1 } };
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	uint32_t len;
	size_t n;
	int fd = call(rig, &hello.node.addr);

	n = mpib_peer_encode(&hello, buf);
	assert_int_equal(send(fd, buf, n, MSG_NOSIGNAL), n);
	/* Its loop waits for what comes; it answers each greeting at once. */
	while (recv(fd, &len, sizeof(len), MSG_PEEK | MSG_DONTWAIT) < 0) {
		assert_true(errno == EAGAIN);
		mpib_loop_turn(&rig->node[0].loop, 1);
	}
	assert_int_equal(recv(fd, &len, sizeof(len), MSG_WAITALL), 4);
	assert_in_range(len, 1, sizeof(buf));
	assert_int_equal(recv(fd, buf, len, MSG_WAITALL), len);
	assert_int_equal(mpib_peer_decode(buf, len, answer), 0);
	return fd;
}

static void greet(struct rig *rig, unsigned lowest, unsigned highest,
		  struct mpib_peer_msg *answer)
{
	close(greet_on(rig, lowest, highest, answer));
}

static void too_old_and_too_new_are_refused_and_told_both_ranges(void **state)
{
	static const unsigned other[] = { MPIB_PEER_VERSION_MIN - 1,
					  MPIB_PEER_VERSION + 1 };
	struct mpib_peer_msg answer;
	char text[100];

	rig_up(*state, 0);
	for (unsigned i = 0; i < 2; i++) {
		greet(*state, other[i], other[i], &answer);
		assert_int_equal(answer.type, MPIB_PEER_REFUSED);
		assert_int_equal(answer.error, -EPROTONOSUPPORT);
		snprintf(text, sizeof(text),
			 "it speaks peer protocol %u to %u, this proxy %u to "
			 "%u",
			 other[i], other[i], MPIB_PEER_VERSION_MIN,
			 MPIB_PEER_VERSION);
		assert_non_null(strstr(answer.why, text));
	}
}

static void the_newest_that_both_know_is_spoken(void **state)
{
	struct mpib_peer_msg answer;

	rig_up(*state, 0);
	greet(*state, MPIB_PEER_VERSION, MPIB_PEER_VERSION + 5, &answer);
	assert_int_equal(answer.type, MPIB_PEER_WELCOME);
	assert_int_equal(answer.version, MPIB_PEER_VERSION);
	greet(*state, 1, MPIB_PEER_VERSION, &answer);
	assert_int_equal(answer.type, MPIB_PEER_WELCOME);
	assert_int_equal(answer.version, MPIB_PEER_VERSION);
}

/* Encode m with one of its lane_info's last three bytes changed to value; what
 * a decoder says of that. */
static int decode_with(const struct mpib_peer_msg *m, unsigned from_end,
		       uint8_t value, struct mpib_peer_msg *got)
{
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(m, buf);

	buf[n - from_end] = value;
	return mpib_peer_decode(buf + 4, n - 4, got);
}

static void a_lane_says_how_it_is_spread_and_which_rails_are_away(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_LANE_ACCEPT,
				   .lane_info = { .imm_version = 2,
						  .rails = 2 } };
	struct mpib_peer_msg got;

	for (unsigned r = 0; r < 2; r++)
		m.lane_info.rail[r].qps = m.lane_info.rail[r].mtu = 1;
	assert_int_equal(decode_with(&m, 3, MPIB_SPREAD_AUTO, &got), 0);
	assert_int_equal(got.lane_info.spread, MPIB_SPREAD_AUTO);
	assert_int_equal(decode_with(&m, 3, MPIB_SPREAD_AUTO + 1, &got),
			 -EPROTO);
	assert_int_equal(decode_with(&m, 2, 1, &got), 0);
	assert_true(got.lane_info.delivered);
	assert_int_equal(decode_with(&m, 1, 2, &got), 0);
	assert_int_equal(got.lane_info.away, 2);
	/* All of the rails, and one that the lane does not have. */
	assert_int_equal(decode_with(&m, 1, 3, &got), -EPROTO);
	assert_int_equal(decode_with(&m, 1, 4, &got), -EPROTO);
}

static void a_connection_says_how_many_entries_its_tables_have(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_CONN_OPEN,
				   .conn = { .id = MPIB_WIRE_CONNS_MAX - 1 } };
	uint8_t before[MPIB_PEER_FRAME_MAX], buf[MPIB_PEER_FRAME_MAX];
	struct mpib_peer_msg got;
	size_t n = mpib_peer_encode(&m, before);

	/* To a peer of before there is nothing new in it. */
	m.conn.slots = MPIB_SLOTS;
	assert_int_equal(mpib_peer_encode(&m, buf), n);
	assert_memory_equal(buf, before, n);
	assert_int_equal(mpib_peer_decode(buf + 4, n - 4, &got), 0);
	assert_int_equal(got.conn.slots, MPIB_SLOTS);
	assert_int_equal(got.conn.id, MPIB_WIRE_CONNS_MAX - 1);

	m.conn.slots = MPIB_TABLE_SLOTS;
	assert_int_equal(mpib_peer_encode(&m, buf), n);
	assert_int_equal(mpib_peer_decode(buf + 4, n - 4, &got), 0);
	assert_int_equal(got.conn.slots, MPIB_TABLE_SLOTS);
	assert_int_equal(got.conn.id, MPIB_WIRE_CONNS_MAX - 1);
	for (m.conn.slots = 1; m.conn.slots < MPIB_SLOTS; m.conn.slots++) {
		if (m.conn.slots == MPIB_TABLE_SLOTS)
			continue;
		mpib_peer_encode(&m, buf);
		assert_int_equal(mpib_peer_decode(buf + 4, n - 4, &got),
				 -EPROTO);
	}
}

static struct mpib_peer *peer_of(const struct rig *rig, unsigned n)
{
	return TAILQ_FIRST(&rig->node[n].broker->peers);
}

static uint32_t slots_of(const struct client *c, uint32_t index)
{
	return fake_conn(&c->engine_client, index)->slots;
}

static void tables_are_as_large_as_an_older_peer_has_them(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	assert_int_equal(slots_of(a, 0), MPIB_TABLE_SLOTS);
	assert_int_equal(slots_of(b, 0), MPIB_TABLE_SLOTS);
	for (unsigned n = 0; n < 2; n++)
		peer_of(rig, n)->version = MPIB_PEER_VERSION_SLOTS - 1;
	rig_connect(rig, a, 1, b, 1);
	assert_int_equal(slots_of(a, 1), MPIB_SLOTS);
	assert_int_equal(slots_of(b, 1), MPIB_SLOTS);
	rig_connect(rig, b, 2, a, 2);
	assert_int_equal(slots_of(a, 2), MPIB_SLOTS);
	assert_int_equal(slots_of(b, 2), MPIB_SLOTS);
}

static void who_accepts_with_other_tables_breaks_the_protocol(void **state)
{
	struct rig *rig = *state;
	struct mpib_handle handle;
	struct client *a, *b;
	uint32_t id;

	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1, 0);
	b = rig_client(rig, 1, 1, 0);
	rig->node[1].engine.wrong_slots = MPIB_SLOTS;
	assert_int_equal(mpib_broker_listen(rig->node[1].broker, &b->client,
					    &id, &handle),
			 0);
	assert_int_equal(
		mpib_broker_accept(rig->node[1].broker, &b->client, id, 0), 0);
	assert_int_equal(mpib_broker_connect(rig->node[0].broker, &a->client, 0,
					     0, &handle),
			 0);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
}

/* A READY without a session is of no version that is spoken. */
static void a_ready_without_a_session_is_hung_up_on(void **state)
{
	const struct mpib_peer_msg ready = { .type = MPIB_PEER_READY };
	struct rig *rig = *state;
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	struct mpib_peer_msg got;
	ssize_t n;
	int fd;

	rig_up(rig, 0);
	fd = greet_on(rig, MPIB_PEER_VERSION, MPIB_PEER_VERSION, &got);
	assert_int_equal(got.type, MPIB_PEER_WELCOME);
	n = (ssize_t)mpib_peer_encode(&ready, buf);
	assert_int_equal(send(fd, buf, (size_t)n, MSG_NOSIGNAL), n);
	while ((n = recv(fd, buf, 1, MSG_DONTWAIT)) < 0) {
		assert_true(errno == EAGAIN);
		mpib_loop_turn(&rig->node[0].loop, 1);
	}
	assert_int_equal(n, 0);
	close(fd);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		too_old_and_too_new_are_refused_and_told_both_ranges, rig_setup,
		rig_teardown),
	cmocka_unit_test_setup_teardown(the_newest_that_both_know_is_spoken,
					rig_setup, rig_teardown),
	cmocka_unit_test(a_lane_says_how_it_is_spread_and_which_rails_are_away),
	cmocka_unit_test(a_connection_says_how_many_entries_its_tables_have),
	cmocka_unit_test_setup_teardown(
		tables_are_as_large_as_an_older_peer_has_them, rig_setup,
		rig_teardown),
	cmocka_unit_test_setup_teardown(
		who_accepts_with_other_tables_breaks_the_protocol, rig_setup,
		rig_teardown),
	cmocka_unit_test_setup_teardown(a_ready_without_a_session_is_hung_up_on,
					rig_setup, rig_teardown),
	{ 0 },
};
