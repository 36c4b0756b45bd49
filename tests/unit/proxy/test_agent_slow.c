/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent: a rail that is left because it answers late, and taken again. */
#include "steered.h"
#include "test.h"

#define SEC 1000000000ull

static struct mpib_agent_sample now = { .rtt_ns = { 4000, 1000 } };

/* A look of which SOUT moved so many bytes, and SUP some. The proxy tells the time
 * of a rail that carries nothing, too: that of then. SUP's share from now on. */
static uint32_t after(uint64_t sout)
{
	policy.now.s++;
	policy.now.ns += SEC;
	now.acked_bytes[MPIB_RAIL_SOUT] += sout;
	now.acked_bytes[MPIB_RAIL_SUP] += 1000;
	mpib_agent_time(&agent.slot[0], &now);
	mpib_agent_decide_all(&policy);
	return mpib_hint_read(mpib_hint_at(agent.shm, 0), 9999);
}

TEST_OF(a_slow_rail_is_tried_again, steered_begin, steered_end)
{
	steered_conn(0, "10.1.0.1");
	policy.conf = (struct mpib_agent_conf){
		.rules = 1, .rule = { { .share = 100 } }, .slow = 4, .hold_s = 5
	};
	assert_int_equal(after(1000), MPIB_HINT_SUP_BW_MAX);
	for (unsigned i = 1; i < 5; i++)
		assert_int_equal(after(0), MPIB_HINT_SUP_BW_MAX);
	assert_int_equal(after(0), 100);
	/* It is as slow as before. */
	assert_int_equal(after(1000), MPIB_HINT_SUP_BW_MAX);
	agent.slot[0].users = 0;
}
