/* SPDX-License-Identifier: Apache-2.0 */
/* Reports between agents of different nodes: which proxies get an agent's
 * reports, and how an agent uses the reports of other nodes. */
#include "steered.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

static uint32_t ip(const char *text)
{
	uint32_t addr;

	assert_int_equal(inet_pton(AF_INET, text, &addr), 1);
	return addr;
}

/* Register a connection as a proxy does. Return the proxy's socket. */
static int proxy(uint32_t flags)
{
	struct mpib_agent_request r = { .type = MPIB_AGENT_REGISTER,
					.flags = flags,
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

CASE(a_proxy_that_reads_reports_gets_each_change)
{
	struct mpib_agent_summary s;
	int fd = proxy(MPIB_AGENT_HEARS), older = proxy(0);

	assert_true(told(fd, &s));
	assert_int_equal(s.sick | s.congested | s.windows, 0);
	assert_false(told(fd, &s));
	policy.sick[1].since = 1;
	policy.congested[0].since = 1;
	assert_true(told(fd, &s));
	assert_int_equal(s.sick, 2);
	assert_int_equal(s.congested, 1);
	assert_int_equal(recv(older, &s, sizeof(s), MSG_DONTWAIT), -1);
	close(older);
	close(fd);
}

CASE(a_proxy_gets_the_reason_for_a_hint)
{
	struct mpib_agent_summary s;
	struct mpib_agent_reason r;
	int fd = proxy(MPIB_AGENT_HEARS);

	mpib_agent_decide(&policy, 0);
	assert_true(told(fd, &s));
	assert_int_equal(recv(fd, &r, sizeof(r), MSG_DONTWAIT), sizeof(r));
	assert_int_equal(r.hint_slot, 0);
	assert_string_equal(r.why, "one rail");
	assert_int_equal(r.since, policy.now.s);
	mpib_agent_decide(&policy, 0);
	assert_false(told(fd, &s));
	close(fd);
}

CASE(a_report_has_as_many_drains_as_fit)
{
	struct mpib_agent_summary s;

	policy.conf.rules = MPIB_AGENT_TOLD_MAX + 1;
	for (unsigned i = 0; i < policy.conf.rules; i++)
		policy.conf.rule[i] =
			(struct mpib_agent_rule){ .from = 100, .drains = true };
	mpib_agent_summary(&policy, &s);
	assert_int_equal(s.windows, MPIB_AGENT_TOLD_MAX);
	policy.conf.rules = 0;
}

static const struct mpib_agent_choice *decided(unsigned slot)
{
	mpib_agent_decide(&policy, slot);
	return &agent.slot[slot].choice;
}

CASE(a_rail_is_avoided_if_the_peers_agent_reports_it)
{
	struct mpib_agent_peer says[2] = {
		{ .sout = ip("10.1.0.1"), .maintenance = 2 },
		{ .sout = ip("10.1.0.2"), .sick = 1 }
	};

	steered_conn(0, "10.1.0.1");
	steered_conn(1, "10.1.0.2");
	steered_conn(2, "10.1.0.3");
	for (unsigned i = 0; i < 3; i++)
		agent.slot[i].adaptive = true;
	policy.peers = (struct mpib_agent_peers){ .n = 2, .of = says };
	assert_int_equal(decided(0)->sup_bw, 0);
	assert_string_equal(decided(0)->why,
			    "SUP avoided: maintenance at the peer");
	assert_int_equal(decided(1)->sup_bw, MPIB_HINT_SUP_BW_MAX);
	assert_string_equal(decided(1)->why,
			    "SOUT avoided: the peer's agent finds it sick");
	assert_int_equal(decided(2)->sup_bw, MPIB_HINT_OWN);
	/* If both rails are unhealthy, the worse rail is avoided, no matter
	 * which agent reports it. */
	policy.sick[0].since = 1;
	snprintf(policy.sick[0].why, MPIB_AGENT_REASON, "errors");
	assert_int_equal(decided(0)->sup_bw, 0);
	assert_string_equal(decided(2)->why, "SOUT avoided: errors");
	policy.peers.n = 0;
	assert_string_equal(decided(0)->why, "SOUT avoided: errors");
	for (unsigned i = 0; i < 3; i++)
		agent.slot[i].users = 0;
}

/* A node's row in the answer to "cluster". `rail` is the sick rail, or
 * empty. */
#define ROW(sout, age, rail)                                                   \
	"{\"sout\":\"" sout "\",\"age_s\":" age ",\"sick\":[" rail "]}"

/* Let the agent read these rows. Return the number of peers that it knows. */
static unsigned heard(const char *rows)
{
	json_t *list = json_loads(rows, 0, NULL);

	assert_non_null(list);
	mpib_agent_take_peers(&policy, list);
	json_decref(list);
	return policy.peers.n;
}

CASE(a_report_of_a_peer_counts_until_it_is_old)
{
	assert_int_equal(heard("[" ROW("10.1.0.2", "30", "") "," ROW(
				 "10.1.0.1", "2",
				 "\"SUP\"") "," ROW("10.1.0.3", "31", "") "]"),
			 2);
	assert_int_equal(policy.peers.of[0].sick, 2);
	assert_int_equal(policy.peers.of[1].sick, 0);
	assert_int_equal(heard("[]"), 0);
	free(policy.peers.of);
}
