/* SPDX-License-Identifier: Apache-2.0 */
/* A broker and callers that use other versions of the peer protocol. */
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

/* Send a HELLO with these versions and return the broker's answer. */
static void greet(struct rig *rig, unsigned lowest, unsigned highest,
		  struct mpib_peer_msg *answer)
{
	struct mpib_peer_msg hello = rig_hello(1);
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	uint32_t len;
	int fd = rig_stranger(rig);

	hello.version_min = (uint16_t)lowest;
	hello.version = (uint16_t)highest;
	rig_say(fd, &hello);
	/* Make turns of the broker until it has answered. */
	while (recv(fd, &len, sizeof(len), MSG_PEEK | MSG_DONTWAIT) < 0) {
		assert_true(errno == EAGAIN);
		mpib_loop_turn(&rig->node[0].loop, 1);
	}
	assert_int_equal(recv(fd, &len, sizeof(len), MSG_WAITALL), 4);
	assert_in_range(len, 1, sizeof(buf));
	assert_int_equal(recv(fd, buf, len, MSG_WAITALL), len);
	assert_int_equal(mpib_peer_decode(buf, len, answer), 0);
	close(fd);
}

rig_test(a_refusal_of_a_version_says_which_node_is_too_old)
{
	static const struct {
		unsigned version;
		const char *old, *young;
		unsigned most, least;
	} row[] = {
		{ MPIB_PEER_VERSION_MIN - 1, "127.23.0.9", "127.23.0.1",
		  MPIB_PEER_VERSION_MIN - 1, MPIB_PEER_VERSION_MIN },
		{ MPIB_PEER_VERSION + 1, "127.23.0.1", "127.23.0.9",
		  MPIB_PEER_VERSION, MPIB_PEER_VERSION + 1 },
	};
	struct mpib_peer_msg answer;
	char text[160];

	rig_up(rig, 0);
	for (unsigned i = 0; i < 2; i++) {
		greet(rig, row[i].version, row[i].version, &answer);
		assert_int_equal(answer.type, MPIB_PEER_REFUSED);
		assert_int_equal(answer.error, -EPROTONOSUPPORT);
		snprintf(text, sizeof(text),
			 "%s speaks peer protocol %u at most, %s %u at least "
			 "(upgrade %s)",
			 row[i].old, row[i].most, row[i].young, row[i].least,
			 row[i].old);
		assert_string_equal(answer.why, text);
	}
}

rig_test(the_newest_common_version_is_used)
{
	struct mpib_peer_msg answer;

	rig_up(rig, 0);
	greet(rig, MPIB_PEER_VERSION, MPIB_PEER_VERSION + 5, &answer);
	assert_int_equal(answer.type, MPIB_PEER_WELCOME);
	assert_int_equal(answer.version, MPIB_PEER_VERSION);
	greet(rig, 1, MPIB_PEER_VERSION, &answer);
	assert_int_equal(answer.type, MPIB_PEER_WELCOME);
	assert_int_equal(answer.version, MPIB_PEER_VERSION);
}

/* Encode `m`, set one byte to `value`, and decode the message. The byte is
 * `from_end` bytes before the end of the message, whose last three bytes are
 * lane_info. Return the result of mpib_peer_decode(). */
static int decode_with(const struct mpib_peer_msg *m, unsigned from_end,
		       uint8_t value, struct mpib_peer_msg *got)
{
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(m, buf);

	buf[n - from_end] = value;
	return mpib_peer_decode(buf + 4, n - 4, got);
}

TEST(a_lanes_spread_and_lost_rails_are_decoded_and_checked)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_LANE_ACCEPT,
				   .lane_info = { .imm_version = 2,
						  .rails = 2 } };
	struct mpib_peer_msg got;

	for (unsigned r = 0; r < 2; r++) {
		m.lane_info.rail[r].qps = m.lane_info.rail[r].mtu = 1;
		m.lane_info.rail[r].max_msg_sz = MPIB_MSG_LEAST;
	}
	assert_int_equal(decode_with(&m, 3, MPIB_SPREAD_AUTO, &got), 0);
	assert_int_equal(got.lane_info.spread, MPIB_SPREAD_AUTO);
	assert_int_equal(decode_with(&m, 3, MPIB_SPREAD_AUTO + 1, &got),
			 -EPROTO);
	assert_int_equal(decode_with(&m, 2, 1, &got), 0);
	assert_true(got.lane_info.delivered);
	assert_int_equal(decode_with(&m, 1, 2, &got), 0);
	assert_int_equal(got.lane_info.away, 2);
	/* A lane must not have lost all rails, or a rail that it does not
	 * have. */
	assert_int_equal(decode_with(&m, 1, 3, &got), -EPROTO);
	assert_int_equal(decode_with(&m, 1, 4, &got), -EPROTO);
}
