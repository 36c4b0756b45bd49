/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent: the configuration file, the rules and when they apply, limits of
 * counters, and decisions. */
#include <arpa/inet.h>
#include <stdio.h>

#include "agent/decide.h"
#include "scratch.h"
#include "test.h"

#define SEC 1000000000ull

static struct mpib_agent agent;
static struct mpib_agent_policy policy;
static struct mpib_agent_conf conf;
static char path[96], why[MPIB_AGENT_WHY];

static int setup(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof(path), "%s", scratch_path("conf"));
	assert_int_equal(
		mpib_agent_start(&agent, scratch_path("agent"), "nobody", why),
		0);
	memset(&policy, 0, sizeof(policy));
	policy.agent = &agent;
	policy.now = (struct mpib_agent_now){ .s = 1000000000, .ns = SEC };
	return 0;
}

static int teardown(void **state)
{
	mpib_agent_stop(&agent);
	json_decref(policy.rails);
	return scratch_remove(state);
}

static bool read_conf(const char *text)
{
	scratch_write("conf", text);
	return mpib_agent_conf_read(&conf, path, why);
}

/* Put a connection into the slot. */
static struct mpib_agent_slot *conn(unsigned slot, const char *peer)
{
	struct mpib_agent_slot *s = &agent.slot[slot];

	*s = (struct mpib_agent_slot){ .users = 1, .adaptive = true };
	inet_pton(AF_INET, peer, &s->dst_ip);
	return s;
}

/* After a crash, a file that was being written may contain zeros. */
fixture_test(a_file_of_zeros_is_not_read_as_an_empty_file)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite((char[300]){ 0 }, 1, 300, f), 300);
	fclose(f);
	assert_false(mpib_agent_conf_read(&conf, path, why));
	assert_non_null(strstr(why, "conf:1: the line contains a NUL byte ("));
}

/* Return the line number of the rule for connections to the peer. */
static unsigned line_for(const char *peer)
{
	uint32_t ip;

	inet_pton(AF_INET, peer, &ip);
	return mpib_agent_conf_rule(&conf, ip, 1000)->line;
}

fixture_test(the_first_matching_rule_applies)
{
	assert_true(read_conf("rule peer 10.1.0.1 static 2\n"
			      "rule network 10.1.0.0/24 drain sup\n"
			      "rule network 10.2.0.1 static 3\n"
			      "rule peer 10.1.0.0/16 static 4\n"));
	assert_int_equal(line_for("10.1.0.1"), 1);
	assert_int_equal(line_for("10.1.0.9"), 2);
	assert_int_equal(line_for("10.2.0.1"), 3);
	assert_int_equal(line_for("10.1.7.3"), 4);
	assert_int_equal(line_for("10.3.0.1"), 0);
	assert_true(read_conf("rule static 1\n"));
	assert_int_equal(line_for("10.3.0.1"), 1);
}

/* The values of a rail in a proxy's answer. */
struct rail {
	unsigned mbps, errors, cnp;
	const char *state;
};
static struct rail sup;

/* Let some seconds pass. Then let the agent read the rails of a proxy. SUP has
 * the values of `sup`. */
static void look(unsigned seconds)
{
	json_t *rows = json_pack(
		"[{ss ss sb ss sI s{sI}} {ss ss sb ss sI sI s{sI}}]", "name",
		"SOUT", "label", "gpu0.SOUT", "up", true, "state", "active",
		"speed_mbps", (json_int_t)400000, "hw", "np_cnp_sent",
		(json_int_t)0, "name", "SUP", "label", "gpu0.SUP", "up",
		!strcmp(sup.state, "active"), "state", sup.state, "speed_mbps",
		(json_int_t)sup.mbps, "cqe_errors", (json_int_t)sup.errors,
		"hw", "np_cnp_sent", (json_int_t)sup.cnp);

	policy.now.s += seconds;
	policy.now.ns += seconds * SEC;
	mpib_agent_take_rails(&policy, rows);
	json_decref(rows);
	mpib_agent_decide_all(&policy);
}

static uint32_t hint(unsigned slot)
{
	return mpib_hint_read(mpib_hint_at(agent.shm, slot), 9999);
}

fixture_test(a_sick_rail_is_avoided_until_it_has_been_healthy_for_long)
{
	const struct mpib_agent_slot *s = conn(3, "10.1.0.1");

	sup = (struct rail){ 400000, 5, 0, "active" };
	scratch_write("conf", "speed sup 400\nsick cqe_errors 10\n"
			      "congested sup np_cnp_sent 100\nhold 5\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	/* a first sample gives no rate, no matter how high the counter is */
	look(1);
	assert_int_equal(hint(3), MPIB_HINT_OWN);
	sup.errors = 15; /* ten errors per second are allowed */
	look(1);
	assert_int_equal(hint(3), MPIB_HINT_OWN);
	sup.errors = 26;
	look(1);
	assert_int_equal(hint(3), 0);
	assert_string_equal(s->choice.why,
			    "SUP avoided: gpu0.SUP: cqe_errors 11/s");
	assert_int_equal(s->choice.since, policy.now.s);
	look(4);
	assert_int_equal(hint(3), 0);
	sup.errors = 2; /* the counter falls if the proxy is restarted */
	look(1);
	assert_int_equal(hint(3), MPIB_HINT_OWN);
	assert_int_equal(s->choice.since, policy.now.s);
	sup.cnp = 101;
	look(1);
	assert_int_equal(hint(3), 256);
	sup.mbps = 200000;
	look(1);
	assert_int_equal(hint(3), 0);
	assert_string_equal(s->choice.why,
			    "SUP avoided: gpu0.SUP: 200 of 400 Gb/s");
	sup.mbps = 400000;
	sup.state = "down";
	look(10);
	assert_string_equal(s->choice.why, "SUP avoided: gpu0.SUP is down");
}

static uint32_t hint_at(uint64_t now_s)
{
	policy.now.s = now_s;
	mpib_agent_decide_all(&policy);
	return hint(0);
}

fixture_test(a_rule_with_a_time_applies_only_in_that_time)
{
	struct mpib_agent_summary told;

	conn(0, "10.1.0.1");
	scratch_write("conf",
		      "rule network 10.1.0.0/16 from 2030-01-31T20:00:00Z to "
		      "2030-01-31T21:00:00Z drain sup\n"
		      "rule from 2030-01-31T20:30:00Z static 7\n"
		      "rule static 100\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	/* `date -u -d 2030-01-31T20:00:00Z +%s` prints 1896120000. */
	assert_int_equal(hint_at(1896119999), 100);
	mpib_agent_summary(&policy, &told);
	assert_int_equal(told.windows, 0);
	assert_int_equal(hint_at(1896120000), 0);
	mpib_agent_summary(&policy, &told);
	assert_int_equal(told.windows, 1);
	assert_int_equal(hint_at(1896123599), 0);
	assert_int_equal(hint_at(1896123600), 7);
	mpib_agent_summary(&policy, &told);
	assert_int_equal(told.windows, 0);
	conn(0, "10.2.0.1");
	assert_int_equal(hint_at(1896120000), 100);
}

fixture_test(the_worse_of_two_sick_rails_is_avoided)
{
	struct mpib_agent_slot *s = conn(0, "10.1.0.1");

	scratch_write("conf", "rule peer 10.9.9.9 adaptive\n"
			      "rule static 100\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 100);
	assert_string_equal(s->choice.why, "rule of line 2");
	policy.sick[MPIB_RAIL_SUP].since = 1;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 0);
	policy.sick[MPIB_RAIL_SOUT].since = 1;
	mpib_agent_decide_all(&policy);
	/* Both rails are equally bad, so the rule applies. */
	assert_int_equal(hint(0), 100);
	scratch_write("conf", "rule peer 10.1.0.1 from "
			      "2001-01-01T00:00:00Z drain sout\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 1024);
	assert_string_equal(s->choice.why, "SOUT avoided: maintenance, line 1");
	policy.dry = true;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), MPIB_HINT_OWN);
	assert_int_equal(s->choice.sup_bw, 1024);
}

/* A proxy in advanced mode would take MPIB_HINT_OWN, like any number above
 * 1024, for "all on SUP". */
fixture_test(a_proxy_in_advanced_mode_always_gets_a_share)
{
	struct mpib_agent_slot *s = conn(0, "10.1.0.1");

	s->adaptive = false;
	scratch_write("conf", "rule adaptive\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 0);
	s->adaptive = true;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), MPIB_HINT_OWN);
}
