/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's reports about the rails of its node, and how the proxy checks
 * them. */
#include <arpa/inet.h>

#include "agent/agent.h"
#include "agent_rig.h"
#include "test.h"

/* Return what the agent reports about the peer whose SOUT is at 10.1.0.n. */
static struct mpib_agent_word word_to(struct rig *rig, unsigned n)
{
	struct mpib_agent_word w;

	mpib_agent_said(rig->node[0].agent, htonl(0x0a010000u + n), &w);
	return w;
}

static const struct mpib_agent_summary *heard_from(struct rig *rig)
{
	pid_t pid;

	return mpib_agent_heard(rig->node[0].agent, &pid);
}

#define CASE(name) RIG_TEST_OF(name, agent_rig_setup, agent_rig_teardown)

CASE(a_report_about_rails_applies_only_to_its_peers)
{
	struct mpib_agent_summary s = { .sick = 2,
					.windows = 2,
					.island = "rack1" };
	struct agent_rig_ends e = agent_rig_nodes_up_with_agent(rig);

	assert_false(word_to(rig, 1).there);
	rig_connect(rig, e.a, 3, e.b, 4);
	assert_true(agent_rig_take_call());
	/* The report is about SOUT to 10.1.0.1, and about SUP to all peers. */
	s.window[0] = (struct mpib_agent_told){
		.addr = { [10] = 0xff, 0xff, 10, 1, 0, 1 },
		.bits = 128,
		.rail = 0
	};
	s.window[1] = (struct mpib_agent_told){ .rail = 1 };
	agent_rig_say(&s);
	rig_settle(rig);
	assert_true(word_to(rig, 1).there);
	assert_string_equal(word_to(rig, 1).island, "rack1");
	assert_int_equal(word_to(rig, 1).sick, 2);
	assert_int_equal(word_to(rig, 1).maintenance, 3);
	assert_int_equal(word_to(rig, 2).maintenance, 2);
	assert_int_equal(heard_from(rig)->sick, 2);
	/* In a dry run, the report must have no effect. */
	s.flags = MPIB_AGENT_DRY;
	agent_rig_say(&s);
	rig_settle(rig);
	assert_false(word_to(rig, 1).there);
	assert_int_equal(heard_from(rig)->sick, 2);
	s.flags = 0;
	agent_rig_say(&s);
	rig_settle(rig);
	assert_true(word_to(rig, 1).there);
	/* The proxy drops the report when the agent stops. */
	agent_rig_down();
	rig_settle(rig);
	assert_null(heard_from(rig));
	assert_false(word_to(rig, 1).there);
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
	assert_int_equal(heard->windows, MPIB_AGENT_TOLD_MAX);
	assert_int_equal(strspn(heard->island, "?"), sizeof(s.island) - 1);
	assert_int_equal(strspn(heard->config, "?"), sizeof(s.config) - 1);
	assert_int_equal(strspn(heard->fault, "?"), sizeof(s.fault) - 1);
	assert_int_equal(strspn(heard->rail[1].why, "?"),
			 sizeof(s.rail[1].why) - 1);
	memset(&s, 0, sizeof(s));
	s.windows = 2;
	s.window[0].rail = 2;
	s.window[1].bits = 129;
	agent_rig_say(&s);
	rig_settle(rig);
	assert_true(word_to(rig, 1).there);
	assert_int_equal(word_to(rig, 1).maintenance, 0);
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
	assert_true(word_to(rig, 1).there);
	assert_int_equal(word_to(rig, 1).sick, 0);
	rig_settle(rig);
	assert_int_equal(word_to(rig, 1).sick, 1);
}
