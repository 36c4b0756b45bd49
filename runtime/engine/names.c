/* SPDX-License-Identifier: Apache-2.0 */
/* Names and descriptions of enum mpib_last. Any thread. */
#include "engine/measure/snapshot.h"

#include "engine/engine.h"

static const struct {
	const char *word, *text;
} lasts[MPIB_LASTS] = {
	[MPIB_LAST_REFUSED] = { "refused",
				"too many sends of its process wait for "
				"receives or for mpib_test()" },
	[MPIB_LAST_QUEUED] = { "queued", "behind others of its connection" },
	[MPIB_LAST_NO_CTS] = { "no_cts",
			       "its peer has posted no receive for it" },
	[MPIB_LAST_NO_SLOT] = { "no_slot",
				"too many of its connection's send ops are in "
				"flight" },
	[MPIB_LAST_NO_SQ] = { "no_sq", "the send queue is full" },
	[MPIB_LAST_NO_WINDOW] = { "no_window",
				  "the window of its lane is full" },
	[MPIB_LAST_NO_SHARE] = { "no_share",
				 "another connection has its turn" },
	[MPIB_LAST_LIMITED] = { "limited",
				"its connection, process or user has reached "
				"its rate limit" },
	[MPIB_LAST_NO_GROUP] = { "no_group",
				 "other sends of its group are missing" },
	[MPIB_LAST_UNACKED] = { "unacked", "posted, but not acknowledged" },
	[MPIB_LAST_UNDELIVERED] = { "undelivered",
				    "acknowledged by devices, but not by "
				    "the peer's proxy" },
	[MPIB_LAST_NO_DATA] = { "no_data",
				"its process has submitted only a part of it" },
	[MPIB_LAST_CTS_UNSENT] = { "cts_unsent",
				   "no room to send its clear-to-send" },
	[MPIB_LAST_NO_SENDER] = { "no_sender", "its peer has sent nothing" },
	[MPIB_LAST_NO_IMM] = { "no_imm", "a rail has not ended its part" },
	[MPIB_LAST_ARRIVED] = { "arrived",
				"arrived, but an earlier receive has not" },
};

const char *mpib_last_word(enum mpib_last last)
{
	return lasts[last].word;
}

const char *mpib_last_text(enum mpib_last last)
{
	return lasts[last].text;
}

const char *mpib_rail_cause_name(enum mpib_rail_cause cause)
{
	static const char *const name[MPIB_CAUSES] = {
		[MPIB_CAUSE_NONE] = "no cause",
		[MPIB_CAUSE_PORT] = "port down",
		[MPIB_CAUSE_ERROR] = "error completion",
		[MPIB_CAUSE_STUCK] = "black hole",
		[MPIB_CAUSE_PEER] = "the peer's notice",
		[MPIB_CAUSE_PROBE] = "probe without answer",
	};

	return cause < MPIB_CAUSES ? name[cause] : "?";
}
