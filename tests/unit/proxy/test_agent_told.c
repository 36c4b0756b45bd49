/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's messages to the proxies: reasons of hints, and reports with the
 * rails that the proxies have to drain. */
#include "steered.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "test.h"

static uint32_t ip(const char *text)
{
	uint32_t addr;

	assert_int_equal(inet_pton(AF_INET, text, &addr), 1);
	return addr;
}

/* Register a connection as a proxy does. Return the proxy's socket. */
static int proxy(void)
{
	struct mpib_agent_request r = { .type = MPIB_AGENT_REGISTER,
					.conn_id = 1,
					.sout_src_ip = ip("10.1.0.9"),
					.sout_dst_ip = ip("10.1.0.1") };
	struct mpib_agent_response answer;
	int fd = steered_dial();

	assert_int_equal(send(fd, &r, sizeof(r), MSG_NOSIGNAL), sizeof(r));
	while (mpib_loop_turn(&agent.loop, 0) > 0)
		;
	assert_int_equal(recv(fd, &answer, sizeof(answer), MSG_DONTWAIT),
			 sizeof(answer));
	assert_int_equal(answer.status, 0);
	return fd;
}

/* Let the agent send its report. Return whether the proxy gets a report. */
static bool told(int fd, struct mpib_agent_summary *s)
{
	struct mpib_agent_summary now;

	mpib_agent_summary(&policy, &now);
	mpib_agent_tell(&agent, &now);
	return recv(fd, s, sizeof(*s), MSG_DONTWAIT | MSG_TRUNC) == sizeof(*s);
}

#define CASE(name) TEST_OF(name, steered_begin, steered_end)

CASE(a_proxy_gets_each_report)
{
	struct mpib_agent_summary s;
	int fd = proxy();

	assert_true(told(fd, &s));
	assert_int_equal(s.sick | s.congested | s.windows, 0);
	assert_true(told(fd, &s));
	policy.sick[1].since = 1;
	policy.congested[0].since = 1;
	assert_true(told(fd, &s));
	assert_int_equal(s.sick, 2);
	assert_int_equal(s.congested, 1);
	close(fd);
}

CASE(a_proxy_gets_the_reason_for_a_hint)
{
	struct mpib_agent_summary s;
	struct mpib_agent_reason r;
	int fd = proxy();

	mpib_agent_decide(&policy, 0);
	assert_true(told(fd, &s));
	assert_int_equal(recv(fd, &r, sizeof(r), MSG_DONTWAIT), sizeof(r));
	assert_int_equal(r.hint_slot, 0);
	assert_string_equal(r.why, "one rail");
	assert_int_equal(r.since, policy.now.s);
	mpib_agent_decide(&policy, 0);
	assert_true(told(fd, &s));
	assert_int_equal(recv(fd, &r, sizeof(r), MSG_DONTWAIT), -1);
	close(fd);
}

/* Let a rule drain SUP for a limited time, for the peers in 10.1.0.0/16 or, with
 * 0 bits, for all peers. Return the agent's report. */
static struct mpib_agent_summary timed(unsigned bits)
{
	struct mpib_agent_summary s;

	policy.conf.rules = 1;
	policy.conf.rule[0] = (struct mpib_agent_rule){ .line = 3,
							.from = 100,
							.drains = true };
	if (bits)
		policy.conf.rule[0].net = (struct mpib_network){
			.addr = mpib_address_of_ip(ip("10.1.0.0")), .bits = bits
		};
	mpib_agent_summary(&policy, &s);
	policy.conf.rules = 0;
	return s;
}

CASE(a_timed_drain_for_all_peers_is_a_drain_of_the_rail)
{
	struct mpib_agent_summary s = timed(0);

	assert_int_equal(s.sick, 2);
	assert_int_equal(s.windows, 1);
	assert_int_equal(s.rail[1].since, 100);
	assert_string_equal(s.rail[1].why, "maintenance, line 3");
	s = timed(96 + 16);
	assert_int_equal(s.sick, 0);
	assert_int_equal(s.windows, 1);
}

/* Otherwise the peers in maintenance would get traffic over SUP. */
CASE(a_sick_rail_is_not_drained_while_the_other_is_in_maintenance)
{
	struct mpib_agent_summary s;

	policy.sick[0].since = 1;
	s = timed(96 + 16);
	assert_int_equal(s.sick, 0);
	assert_int_equal(s.congested, 1);
	assert_int_equal(timed(0).sick, 2);
	policy.sick[0].since = 0;
	policy.sick[1].since = 1;
	assert_int_equal(timed(96 + 16).sick, 2);
}
