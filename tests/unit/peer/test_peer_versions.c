/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that speak other versions of the peer protocol, at a real broker. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "peer/internal.h"
#include "rig.h"

/* A TCP connection to the broker of node 0, from an address of its own. */
static int call(struct rig *rig, uint32_t *from)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct sockaddr_in self = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	to.sin_addr.s_addr = htonl(0x7f170001u);
	to.sin_port = htons(mpib_broker_port(rig->node[0].broker));
	self.sin_addr.s_addr = *from = htonl(0x7f170009u);
	assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof(self)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* What a broker answers to a HELLO of these versions. */
static void greet(struct rig *rig, unsigned lowest, unsigned highest,
		  struct mpib_peer_msg *bitmap)
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
	assert_int_equal(mpib_peer_decode(buf, len, bitmap), 0);
	close(fd);
}

static void too_old_and_too_new_are_refused_and_told_both_ranges(void **state)
{
	static const unsigned other[] = { MPIB_PEER_VERSION_MIN - 1,
					  MPIB_PEER_VERSION + 1 };
	struct mpib_peer_msg bitmap;
	char text[100];

	rig_up(*state, 0);
	for (unsigned i = 0; i < 2; i++) {
		greet(*state, other[i], other[i], &bitmap);
		assert_int_equal(bitmap.type, MPIB_PEER_REFUSED);
		assert_int_equal(bitmap.error, -EPROTONOSUPPORT);
		snprintf(text, sizeof(text),
			 "it speaks peer protocol %u to %u, this proxy %u to "
			 "%u",
			 other[i], other[i], MPIB_PEER_VERSION_MIN,
			 MPIB_PEER_VERSION);
		assert_non_null(strstr(bitmap.why, text));
	}
}

static void the_newest_that_both_know_is_spoken(void **state)
{
	struct mpib_peer_msg bitmap;

	rig_up(*state, 0);
	greet(*state, MPIB_PEER_VERSION, MPIB_PEER_VERSION + 5, &bitmap);
	assert_int_equal(bitmap.type, MPIB_PEER_WELCOME);
	assert_int_equal(bitmap.version, MPIB_PEER_VERSION);
	for (unsigned v = MPIB_PEER_VERSION_MIN; v <= MPIB_PEER_VERSION; v++) {
		greet(*state, 1, v, &bitmap);
		assert_int_equal(bitmap.type, MPIB_PEER_WELCOME);
		assert_int_equal(bitmap.version, v);
	}
}

/* An older peer reads to the last byte, and knows of no lane but split ones. */
static void a_lane_that_is_split_reads_as_version_2_has_it(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_LANE_OPEN,
				   .lane_info = { .imm_version = 2,
						  .rails = 1 } };
	uint8_t split[MPIB_PEER_FRAME_MAX], spray[MPIB_PEER_FRAME_MAX];
	struct mpib_peer_msg got;
	size_t n;

	(void)state;
	m.lane_info.rail[0].qps = m.lane_info.rail[0].mtu = 1;
	n = mpib_peer_encode(&m, split);
	assert_int_equal(mpib_peer_decode(split + 4, n - 4, &got), 0);
	assert_int_equal(got.lane_info.spread, MPIB_SPREAD_SPLIT);
	m.lane_info.spread = MPIB_SPREAD_AUTO;
	assert_int_equal(mpib_peer_encode(&m, spray), n + 1);
	assert_memory_equal(split + 4, spray + 4, n - 4);
	assert_int_equal(mpib_peer_decode(spray + 4, n - 3, &got), 0);
	assert_int_equal(got.lane_info.spread, MPIB_SPREAD_AUTO);
	spray[n] = MPIB_SPREAD_AUTO + 1;
	assert_int_equal(mpib_peer_decode(spray + 4, n - 3, &got), -EPROTO);
}

static void lanes_to_an_older_peer_are_split(void **state)
{
	struct mpib_engine engine = { .spread = MPIB_SPREAD_SPRAY };
	struct mpib_broker broker = { .engine = &engine };
	struct mpib_peer peer = { .broker = &broker };

	(void)state;
	peer.version = MPIB_PEER_VERSION_SPREAD - 1;
	assert_int_equal(mpib_peer_spread(&peer), MPIB_SPREAD_SPLIT);
	peer.version = MPIB_PEER_VERSION_SPREAD;
	assert_int_equal(mpib_peer_spread(&peer), MPIB_SPREAD_SPRAY);
}

static void a_lane_says_which_rails_are_away(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_LANE_ACCEPT,
				   .lane_info = { .imm_version = 2,
						  .rails = 2 } };
	uint8_t whole[MPIB_PEER_FRAME_MAX], away[MPIB_PEER_FRAME_MAX];
	struct mpib_peer_msg got;
	size_t n;

	(void)state;
	for (unsigned r = 0; r < 2; r++)
		m.lane_info.rail[r].qps = m.lane_info.rail[r].mtu = 1;
	n = mpib_peer_encode(&m, whole);
	m.lane_info.away = 2;
	assert_int_equal(mpib_peer_encode(&m, away), n + 3);
	assert_memory_equal(whole + 4, away + 4, n - 4);
	assert_int_equal(mpib_peer_decode(away + 4, n - 1, &got), 0);
	assert_int_equal(got.lane_info.away, 2);
	assert_int_equal(got.lane_info.spread, MPIB_SPREAD_SPLIT);
	assert_false(got.lane_info.delivered);
	/* All of them, and one that is not. */
	for (unsigned mask = 3; mask < 5; mask++) {
		away[n + 2] = (uint8_t)mask;
		assert_int_equal(mpib_peer_decode(away + 4, n - 1, &got),
				 -EPROTO);
	}
}

/* Whichever end has lost a rail, and whichever opens the lane. */
static void a_lane_short_of_a_rail_is_none_for_an_older_peer(void **state)
{
	struct rig *rig = *state;
	struct client *c[2];

	rig->newest[1] = MPIB_PEER_VERSION_AWAY - 1;
	for (unsigned i = 0; i < 2; i++) {
		rig_up(rig, i);
		c[i] = rig_client(rig, i, 1000, 0);
	}
	rig->node[0].engine.away = 2;
	for (uint32_t i = 0; i < 2; i++) {
		struct client *from = c[i], *to = c[!i];
		struct mpib_handle handle;
		const char *why;
		uint32_t id;

		assert_int_equal(mpib_broker_listen(to->node->broker,
						    &to->client, &id, &handle),
				 0);
		assert_int_equal(mpib_broker_connect(from->node->broker,
						     &from->client, i, -1,
						     &handle),
				 0);
		rig_settle(rig);
		assert_int_equal(rig_state(from, i), MPIB_CONN_FAILED);
		assert_int_equal(rig_error(from, i), -EPROTONOSUPPORT);
		why = mpib_broker_why(&from->client, i);
		assert_non_null(strstr(why, "a device of "));
		assert_non_null(strstr(why, "too old"));
		assert_non_null(strstr(why, "(upgrade it)"));
	}
	rig->node[0].engine.away = 0;
	rig_connect(rig, c[0], 2, c[1], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			too_old_and_too_new_are_refused_and_told_both_ranges,
			rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			the_newest_that_both_know_is_spoken, rig_setup,
			rig_teardown),
		cmocka_unit_test(
			a_lane_that_is_split_reads_as_version_2_has_it),
		cmocka_unit_test(lanes_to_an_older_peer_are_split),
		cmocka_unit_test(a_lane_says_which_rails_are_away),
		cmocka_unit_test_setup_teardown(
			a_lane_short_of_a_rail_is_none_for_an_older_peer,
			rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
