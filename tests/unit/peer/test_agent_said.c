/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's reports about the rails of its node, and how the proxy checks
 * them. */
#include "agent/agent.h"
#include "agent_rig.h"
#include "test.h"

static uint8_t sick(const struct rig *rig)
{
	return mpib_agent_sick(rig->node[0].agent);
}

static const struct mpib_agent_summary *heard_from(struct rig *rig)
{
	pid_t pid;

	return mpib_agent_heard(rig->node[0].agent, &pid);
}

#define CASE(name) RIG_TEST_OF(name, agent_rig_setup, agent_rig_teardown)

CASE(a_rail_is_drained_while_the_agents_report_is_valid)
{
	struct mpib_agent_summary s = { .sick = 2 };
	struct agent_rig_ends e = agent_rig_nodes_up_with_agent(rig);

	assert_int_equal(sick(rig), 0);
	rig_connect(rig, e.a, 3, e.b, 4);
	assert_true(agent_rig_take_call());
	agent_rig_say(&s);
	rig_settle(rig);
	assert_int_equal(sick(rig), 2);
	assert_int_equal(heard_from(rig)->sick, 2);
	/* A dry run drains nothing. */
	s.flags = MPIB_AGENT_DRY;
	agent_rig_say(&s);
	rig_settle(rig);
	assert_int_equal(sick(rig), 0);
	assert_int_equal(heard_from(rig)->sick, 2);
	/* A report is valid for a limited time, so that an agent that hangs
	 * does not drain a rail for ever. */
	s.flags = 0;
	agent_rig_say(&s);
	rig_pass(rig, (MPIB_AGENT_VALID_S - 1) * MPIB_SEC);
	assert_int_equal(sick(rig), 2);
	rig_pass(rig, 2 * MPIB_SEC);
	assert_int_equal(sick(rig), 0);
	assert_null(heard_from(rig));
	/* The drain ends when the agent ends. */
	agent_rig_say(&s);
	rig_settle(rig);
	assert_int_equal(sick(rig), 2);
	agent_rig_down();
	rig_settle(rig);
	assert_int_equal(sick(rig), 0);
	assert_null(heard_from(rig));
}

CASE(wrong_reports_of_an_agent_are_corrected)
{
	struct agent_rig_ends e = agent_rig_nodes_up_with_agent(rig);
	struct mpib_agent_summary s;
	const struct mpib_agent_summary *heard;

	rig_connect(rig, e.a, 3, e.b, 4);
	assert_true(agent_rig_take_call());
	memset(&s, 0xff, sizeof(s));
	agent_rig_say(&s);
	rig_settle(rig);
	heard = heard_from(rig);
	assert_int_equal(heard->sick, 3);
	assert_int_equal(heard->congested, 3);
	assert_int_equal(strspn(heard->config, "?"), sizeof(s.config) - 1);
	assert_int_equal(strspn(heard->fault, "?"), sizeof(s.fault) - 1);
	assert_int_equal(strspn(heard->rail[1].why, "?"),
			 sizeof(s.rail[1].why) - 1);
}

CASE(an_agent_that_sends_endlessly_does_not_block_the_loop)
{
	struct agent_rig_ends e = agent_rig_nodes_up_with_agent(rig);
	struct mpib_agent_summary s = { 0 };

	rig_connect(rig, e.a, 3, e.b, 4);
	assert_true(agent_rig_take_call());
	for (unsigned i = 0; i < 65; i++)
		agent_rig_say(&s);
	s.sick = 1;
	agent_rig_say(&s);
	/* One turn must not read all messages. */
	assert_int_equal(mpib_loop_turn(&rig->node[0].loop, 0), 1);
	assert_non_null(heard_from(rig));
	assert_int_equal(sick(rig), 0);
	rig_settle(rig);
	assert_int_equal(sick(rig), 1);
}
