/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent: its file, whom its rules are for, ports, windows, decisions. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/decide.h"
#include "test.h"

#define SEC 1000000000ull
#define PORT "/sys/class/infiniband/mlx5_1/ports/1"

static struct mpib_agent agent;
static struct mpib_agent_policy policy;
static struct mpib_agent_conf conf;
static char dir[64], path[96], why[MPIB_AGENT_WHY];

static void put(const char *name, const char *text)
{
	char at[160];
	FILE *out;

	snprintf(at, sizeof(at), "%s/%s", dir, name);
	out = fopen(at, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void number(const char *name, unsigned n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u\n", n);
	put(name, text);
}

static int setup(void **state)
{
	static const char *const part[] = {
		"/sys",
		"/sys/class",
		"/sys/class/infiniband",
		"/sys/class/infiniband/mlx5_1",
		"/sys/class/infiniband/mlx5_1/ports",
		PORT,
		PORT "/counters",
		PORT "/hw_counters"
	};
	static char sys[96];
	char at[160];

	snprintf(dir, sizeof(dir), "/tmp/mpib-conf-XXXXXX");
	assert_non_null(mkdtemp(dir));
	for (unsigned i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		snprintf(at, sizeof(at), "%s%s", dir, part[i]);
		assert_int_equal(mkdir(at, 0700), 0);
	}
	put(PORT "/state", "4: ACTIVE\n");
	put(PORT "/rate", "400 Gb/sec (4X NDR)\n");
	put(PORT "/counters/symbol_error", "5\n");
	put(PORT "/hw_counters/np_cnp_sent", "0\n");
	snprintf(path, sizeof(path), "%s/conf", dir);
	snprintf(at, sizeof(at), "%s/agent", dir);
	assert_int_equal(mpib_agent_start(&agent, at, "nobody", 0, why), 0);
	snprintf(sys, sizeof(sys), "%s/sys", dir);
	memset(&policy, 0, sizeof(policy));
	policy.agent = &agent;
	policy.ports.sysfs = sys;
	policy.now = (struct mpib_agent_now){ .s = 1000000000, .ns = SEC };
	return 0;
}

static int teardown(void **state)
{
	char command[96];

	mpib_agent_stop(&agent);
	mpib_agent_conf_free(&policy.conf);
	mpib_agent_conf_free(&conf);
	mpib_agent_windows_free(&policy.windows);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static bool read_conf(const char *text)
{
	mpib_agent_conf_free(&conf);
	put("conf", text);
	return mpib_agent_conf_read(&conf, path, why);
}

/* A connection in the slot, from 10.0.0.1. */
static struct mpib_agent_slot *conn(unsigned slot, const char *peer)
{
	struct mpib_agent_slot *s = &agent.slot[slot];

	*s = (struct mpib_agent_slot){ .users = 1,
				       .adaptive = true,
				       .choice.balance = 512 };
	inet_pton(AF_INET, "10.0.0.1", &s->src_ip);
	inet_pton(AF_INET, peer, &s->dst_ip);
	return s;
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
	static const struct {
		const char *text, *says;
	} row[] = {
		{ "\n# x\nrul static 1\n", "conf:3: unknown word \"rul\"" },
		{ "rule\n", "conf:1: rule: none is given" },
		{ "rule static 1025\n", "static: it takes 0 to 1024" },
		{ "rule peer 10.0.0 static 1\n", "peer 10.0.0: it takes" },
		{ "rule peer\n", "peer : it takes" },
		{ "rule network 10.0.0.1/8 static 1\n", "network 10.0.0.1/8" },
		{ "rule uid -1 static 1\n", "uid -1: it takes" },
		{ "rule class 256 static 1\n", "class 256: it takes" },
		{ "rule island inside static 1\n", "conf:1: island: no list" },
		{ "islands nowhere\n", "islands nowhere: it takes a file" },
		{ "islands /no/such\n", "/no/such: No such file" },
		{ "port up mlx5_0 1\n", "port: it takes sout or sup" },
		{ "port sup ../../x 1\n", "port: it takes sout or sup" },
		{ "port sup mlx5_0 0\n", "port: it takes sout or sup" },
		{ "port sup mlx5_0 1\nsick x/y 1\n", "conf:2: sick: it takes" },
		{ "port sup mlx5_0 1\ncongested x\n", "congested: it takes" },
		{ "sick symbol_error 1\n", "no port is named" },
		{ "hold 0\n", "hold 0: it takes a number" },
		{ "lead x\n", "lead x: it takes a number" },
		{ "slow 1\n", "slow 1: it takes a number" },
		{ "maintenance x\n", "maintenance x: it takes a file" },
		{ "maintenance /x\nmaintenance /x\n", "conf:2: maintenance" },
		{ "rule 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8\n",
		  "too many words" },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_false(read_conf(row[i].text));
		if (!strstr(why, row[i].says))
			fail_msg("\"%s\" is told as: %s", row[i].text, why);
		/* With what helps, or where to look. */
		assert_non_null(strchr(why, '('));
	}
	assert_true(read_conf("# nothing\n\n"));
}

/* As after a crash, where a file was about to be written. */
static void a_file_of_zeros_is_not_an_empty_one(void **state)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite((char[300]){ 0 }, 1, 300, f), 300);
	fclose(f);
	mpib_agent_conf_free(&conf);
	assert_false(mpib_agent_conf_read(&conf, path, why));
	assert_non_null(strstr(why, "conf:1: the line has bytes of zero ("));
}

static void the_first_rule_that_fits_holds(void **state)
{
	char text[512];
	struct mpib_agent_slot *s = conn(0, "10.1.0.9");

	put("islands", "10.0.0.0/16 a\n10.1.0.0/16 b\n10.1.7.0/24 a\n"
		       "10.2.0.1 c\n");
	snprintf(text, sizeof(text),
		 "islands %s/islands\n"
		 "rule peer 10.1.0.1 static 2\n"
		 "rule network 10.1.0.0/24 uid 7 static 3\n"
		 "rule class 104 static 4\n"
		 "rule island inside static 5\n"
		 "rule island c balance\n"
		 "rule island outside static 7\n",
		 dir);
	assert_true(read_conf(text));
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 7);
	s->known = true;
	s->class = 104;
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 4);
	s->uid = 7;
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 3);
	s = conn(0, "10.1.0.1");
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 2);
	s = conn(0, "10.1.7.3");
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 5);
	s = conn(0, "10.2.0.1");
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 6);
	/* Of no island: nothing is known of the way. */
	s = conn(0, "10.3.0.1");
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->kind,
			 MPIB_RULE_ADAPTIVE);
	assert_int_equal(mpib_agent_conf_rule(&conf, s)->line, 0);
}

static void look(unsigned seconds)
{
	policy.now.s += seconds;
	policy.now.ns += seconds * SEC;
	mpib_agent_ports_look(&policy.ports, &policy.conf, &policy.now);
	mpib_agent_decide_all(&policy);
}

static uint32_t hint(unsigned slot)
{
	return mpib_hint_read(mpib_hint_at(agent.shm, slot), 9999);
}

static void a_sick_port_is_left_until_it_is_well_for_long(void **state)
{
	const struct mpib_agent_slot *s = conn(3, "10.1.0.1");

	put("conf", "port sup mlx5_1 1 400\nsick symbol_error 10\n"
		    "congested np_cnp_sent 100\nhold 5\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	look(1); /* the first look tells nothing, however high it is */
	assert_int_equal(hint(3), MPIB_HINT_OWN);
	number(PORT "/counters/symbol_error", 15); /* ten a second: allowed */
	look(1);
	assert_int_equal(hint(3), MPIB_HINT_OWN);
	number(PORT "/counters/symbol_error", 26);
	look(1);
	assert_int_equal(hint(3), 0);
	assert_string_equal(s->choice.why,
			    "SUP left: mlx5_1/1: symbol_error 11/s");
	assert_int_equal(s->choice.since, policy.now.s);
	look(4);
	assert_int_equal(hint(3), 0);
	number(PORT "/counters/symbol_error", 2); /* it went back: begun anew */
	look(1);
	assert_int_equal(hint(3), MPIB_HINT_OWN);
	assert_int_equal(s->choice.since, policy.now.s);
	number(PORT "/hw_counters/np_cnp_sent", 101);
	look(1);
	assert_int_equal(hint(3), 256);
	put(PORT "/rate", "200 Gb/sec (2X NDR)\n");
	look(1);
	assert_int_equal(hint(3), 0);
	assert_string_equal(s->choice.why,
			    "SUP left: mlx5_1/1: 200 of 400 Gb/s");
	put(PORT "/rate", "400 Gb/sec (4X NDR)\n");
	put(PORT "/state", "1: DOWN\n");
	look(10);
	assert_string_equal(s->choice.why, "SUP left: mlx5_1/1: state 1: DOWN");
}

static void a_window_has_its_rail_to_its_peer_with_a_lead(void **state)
{
	struct mpib_agent_windows *w = &policy.windows;
	uint32_t peer = conn(0, "10.1.0.1")->dst_ip;
	uint32_t other = conn(1, "10.2.0.1")->dst_ip;
	char file[96];

	snprintf(file, sizeof(file), "%s/windows", dir);
	put("windows", "# of the switch\n"
		       "10.1.0.0/16 sup 2030-01-31T20:00:00Z "
		       "2030-01-31T21:00:00Z\n"
		       "all sout 2031-01-01T00:00:00Z 2031-01-02T00:00:00Z\n");
	mpib_agent_windows_look(w, file);
	assert_int_equal(w->n, 2);
	/* date -u -d 2030-01-31T20:00:00Z +%s */
	assert_int_equal(w->of[0].from, 1896120000);
	assert_null(mpib_agent_window_of(w, peer, 1, 1896119989, 10));
	assert_ptr_equal(mpib_agent_window_of(w, peer, 1, 1896119990, 10),
			 &w->of[0]);
	assert_null(mpib_agent_window_of(w, peer, 0, 1896120000, 10));
	assert_null(mpib_agent_window_of(w, other, 1, 1896120000, 10));
	assert_non_null(mpib_agent_window_of(w, peer, 1, 1896123599, 10));
	assert_null(mpib_agent_window_of(w, peer, 1, 1896123600, 10));
	assert_ptr_equal(mpib_agent_window_of(w, other, 0, 1925000000, 10),
			 &w->of[1]);
	/* What is wrong leaves the list as it is. */
	put("windows", "all sup 2030-01-31T20:00:00Z 2030-01-31 20:00\n");
	mpib_agent_windows_look(w, file);
	assert_int_equal(w->n, 2);
	unlink(file);
	mpib_agent_windows_look(w, file);
	assert_int_equal(w->n, 2);
	put("windows", "");
	mpib_agent_windows_look(w, file);
	assert_int_equal(w->n, 0);
}

static void bad_windows_are_named(void **state)
{
	static const char *const bad[] = {
		"all sup 2030-01-31T20:00:00Z",
		"me sup 2030-01-31T20:00:00Z 2030-01-31T21:00:00Z",
		"all up 2030-01-31T20:00:00Z 2030-01-31T21:00:00Z",
		"all sup 2030-01-31 2030-01-31T21:00:00Z",
		"all sup 2030-01-31T20:00:00Z 2030-01-31T20:00:00Z",
		"all sup 2030-02-31T20:00:00Z 2030-03-31T20:00:00Z",
	};
	char file[96];

	snprintf(file, sizeof(file), "%s/windows", dir);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put("windows", bad[i]);
		assert_false(
			mpib_agent_windows_read(&policy.windows, file, why));
		assert_non_null(strstr(why, "windows:1: "));
		assert_non_null(strchr(why, '('));
	}
}

static void of_two_rails_in_trouble_the_worse_is_left(void **state)
{
	struct mpib_agent_slot *s = conn(0, "10.1.0.1");
	char text[160];

	put("windows", "");
	snprintf(text, sizeof(text),
		 "maintenance %s/windows\nslow 4\nhold 5\n"
		 "rule peer 10.9.9.9 adaptive\nrule static 100\n",
		 dir);
	put("conf", text);
	assert_true(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 100);
	assert_string_equal(s->choice.why, "rule of line 5");
	s->rtt_ns[MPIB_RAIL_SOUT] = 4000;
	s->rtt_ns[MPIB_RAIL_SUP] = 1000;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 1024);
	/* It is not measured while it is left: not before hold has passed. */
	s->rtt_ns[MPIB_RAIL_SOUT] = 1000;
	policy.now.ns += 4 * SEC;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 1024);
	policy.ports.sick[MPIB_RAIL_SUP].since = 1;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 0);
	policy.ports.sick[MPIB_RAIL_SOUT].since = 1;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 100); /* as bad as each other: the rule */
	put("windows", "10.1.0.1 sout 2001-01-01T00:00:00Z "
		       "2101-01-01T00:00:00Z\n");
	mpib_agent_windows_look(&policy.windows, policy.conf.windows);
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 1024);
	assert_string_equal(s->choice.why, "SOUT left: maintenance, line 1");
	policy.dry = true;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), MPIB_HINT_OWN);
	assert_int_equal(s->choice.sup_bw, 1024);
}

static void a_bad_file_leaves_the_rules_as_they_are(void **state)
{
	conn(0, "10.1.0.1");
	put("conf", "rule static 100\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	put("conf", "rule static 200\nnonsense\n");
	assert_false(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 100);
	put("conf", "rule static 200\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 200);
}

/* Numbers above 1024 would be all on SUP for it. */
static void a_proxy_in_advanced_mode_is_never_left_to_itself(void **state)
{
	struct mpib_agent_slot *s = conn(0, "10.1.0.1");

	s->adaptive = false;
	put("conf", "rule adaptive\n");
	assert_true(mpib_agent_reload(&policy, path, why));
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 512);
	policy.dry = true;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(0), 0);
}

const struct CMUnitTest test_list[] = {
	fixture_test(what_is_wrong_is_named_with_its_line),
	fixture_test(a_file_of_zeros_is_not_an_empty_one),
	fixture_test(the_first_rule_that_fits_holds),
	fixture_test(a_sick_port_is_left_until_it_is_well_for_long),
	fixture_test(a_window_has_its_rail_to_its_peer_with_a_lead),
	fixture_test(bad_windows_are_named),
	fixture_test(of_two_rails_in_trouble_the_worse_is_left),
	fixture_test(a_bad_file_leaves_the_rules_as_they_are),
	fixture_test(a_proxy_in_advanced_mode_is_never_left_to_itself),
	{ 0 },
};
