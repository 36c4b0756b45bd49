/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/check.c, rails.c: what settings mean and forbid together. */
#include "config/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/address.h"
#include "test.h"

static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];

static int fresh(void **state)
{
	mpib_config_init(&cfg);
	why[0] = '\0';
	snprintf(cfg.sout, sizeof(cfg.sout), "soft");
	return 0;
}

static int set(const char *section, const char *key, const char *value)
{
	return mpib_config_set(&cfg, mpib_config_find(section, key), value,
			       "here", why);
}

static void refused(const char *part)
{
	assert_int_equal(mpib_config_finish(&cfg, why), -EINVAL);
	assert_in(why, part);
}

static void what_does_not_fit_together_is_refused(void **state)
{
	set("hca", "sout", "auto");
	set("hca", "sup", "soft:127.24.1.1");
	refused("hca.sup is given without hca.sout");
	set("hca", "sout", "rdma:fake_0");
	set("hca", "sup", "auto");
	refused("hca.sup is auto and hca.sout is not");
	set("hca", "sup", "soft:127.24.1.1");
	set("hca", "sout", "soft:127.24.1.1");
	refused("both rails are");
	set("hca", "sup", "soft:nowhere");
	refused("hca.sup");
	set("hca", "sup", "soft:127.24.1.2");
	set("srq", "high", "64");
	refused("here: srq.low = 64 is not below srq.high = 64");
	set("srq", "low", "63");
	set("client", "part", "130");
	refused("client.part");
	set("client", "part", "128");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
}

static void
what_the_start_would_refuse_is_refused_here_and_at_once(void **state)
{
	set("metrics", "listen", "nonsense");
	set("peer", "addr", "fe80::1");
	set("peer", "key_file", "/nonexistent/key");
	set("srq", "low", "512");
	set("srq", "high", "512");
	refused("here: metrics.listen = \"nonsense\": not an IPv4 address and port");
	assert_in(why, "here: peer.addr = \"fe80::1\" is no address");
	assert_in(why, "here: peer.key_file = /nonexistent/key: No such file");
	assert_in(why, "srq.low = 512");
	/* A directory is no key. */
	fresh(state);
	set("peer", "key_file", "/");
	refused("no regular file");
	fresh(state);
	set("metrics", "listen", "127.0.0.1:9495");
	set("peer", "addr", "10.0.0.1");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
}

static void a_key_that_is_none_is_refused_here_too(void **state)
{
	char path[] = "/tmp/mpib-key-XXXXXX", key[32] = { 0 };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, key, sizeof(key)), sizeof(key));
	set("peer", "key_file", path);
	refused("its bytes are all the same (");
	key[0] = 1;
	assert_int_equal(pwrite(fd, key, sizeof(key), 0), sizeof(key));
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	close(fd);
	unlink(path);
}

static void the_peer_link_has_one_address_or_two(void **state)
{
	static const char *const bad[] = { "10.0.0.1,",
					   ",10.0.0.1",
					   "10.0.0.1,10.0.0.1",
					   "10.0.0.1,fe80::1",
					   "10.0.0.1,10.0.0.2,10.0.0.3",
					   "10.0.0.1, 10.0.0.2" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fresh(state);
		set("peer", "addr", bad[i]);
		refused("two that differ");
	}
	fresh(state);
	set("peer", "addr", "10.0.0.1,fd00::1");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(mpib_address_ip(&cfg.peer_at[0]), htonl(0x0a000001));
	assert_int_equal(cfg.peer_at[1].s6_addr[15], 1);
	set("peer", "addr", "10.0.0.1");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_true(IN6_IS_ADDR_UNSPECIFIED(&cfg.peer_at[1]));
}

/* Each of these was taken, and then connects failed or nothing was sent. */
static void what_no_connection_could_live_with_is_refused(void **state)
{
	static const struct {
		const char *section, *key, *value, *why;
	} row[] = {
		{ "cts", "signal_interval", "512",
		  "here: cts.signal_interval = 512 is more than the 495 that "
		  "qp.sq_depth = 512 leaves room for" },
		{ "quota", "requests", "31",
		  "quota.requests = 31 is less than the 32" },
		{ "quota", "fds", "5", "quota.fds = 5 is less than the 6" },
		{ "quota", "fds", "0", NULL },
		{ "client", "window", "1000000",
		  "here: client.window = 1000000 is no multiple of 128 (give "
		  "999936)" },
		{ "client", "part", "1000",
		  "here: client.part = 1000 is no multiple of 128 (give 896)" },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		fresh(state);
		assert_int_equal(set(row[i].section, row[i].key, row[i].value),
				 0);
		assert_int_equal(mpib_config_finish(&cfg, why),
				 row[i].why ? -EINVAL : 0);
		assert_in(why, row[i].why ? row[i].why : "");
	}
}

static unsigned lines(const char *text)
{
	unsigned n = *text != '\0';

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
	set("hca", "sout", "soft:127.24.1.1");
	set("hca", "sup", "soft:127.24.1.1");
	set("srq", "high", "64");
	set("client", "part", "130");
	set("policy", "mode", "vanilla");
	set("share", "rules", "nonsense");
	set("quota", "fds", "1");
	assert_int_equal(mpib_config_finish(&cfg, why), -EINVAL);
	assert_int_equal(lines(why), 6);
	assert_in(why, "here: both rails are");
	assert_in(why, "\nhere: srq.low = 64");
	assert_in(why, "\nhere: client.part = 130");
	assert_in(why, "\nhere: policy.mode is vanilla");
	assert_in(why, "\nhere: share.rules: ");
	assert_in(why, "\nhere: quota.fds = 1");
}

static void the_built_in_interval_of_signals_gives_way(void **state)
{
	set("qp", "sq_depth", "32");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
}

static void the_mode_follows_what_else_is_given(void **state)
{
	static const struct {
		const char *mode, *bw, *prefix, *networks;
		enum mpib_mode is;
	} row[] = {
		{ NULL, NULL, NULL, NULL, MPIB_MODE_ADAPTIVE },
		{ NULL, "512", NULL, NULL, MPIB_MODE_STATIC },
		{ NULL, NULL, "24", NULL, MPIB_MODE_VANILLA },
		{ NULL, "512", NULL, "10.0.0.0/8", MPIB_MODE_VANILLA },
		{ "adaptive", "512", "24", NULL, MPIB_MODE_ADAPTIVE },
		{ "0", NULL, "24", NULL, MPIB_MODE_VANILLA },
		{ "1", NULL, NULL, NULL, MPIB_MODE_ADVANCED },
		{ "2", "1", NULL, NULL, MPIB_MODE_ADAPTIVE },
		{ "3", NULL, "24", NULL, MPIB_MODE_STATIC },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		fresh(state);
		if (row[i].mode)
			assert_int_equal(set("policy", "mode", row[i].mode), 0);
		if (row[i].bw)
			assert_int_equal(set("sup", "bw", row[i].bw), 0);
		if (row[i].prefix)
			assert_int_equal(set("island", "prefix", row[i].prefix),
					 0);
		if (row[i].networks)
			assert_int_equal(
				set("island", "networks", row[i].networks), 0);
		assert_int_equal(mpib_config_finish(&cfg, why), 0);
		assert_int_equal(cfg.engine.mode, row[i].is);
	}
}

static void isolation_wants_to_know_the_islands(void **state)
{
	assert_int_equal(set("policy", "mode", "vanilla"), 0);
	refused("here: policy.mode is vanilla");
	assert_in(why, "island.prefix");
	assert_int_equal(set("island", "networks", "10.0.0.0/99"), 0);
	refused("here: island.networks: \"10.0.0.0/99\"");
}

static void peers_are_in_networks(void **state)
{
	struct in6_addr in = mpib_address_of_ip(htonl(0x0a010203)),
			out = mpib_address_of_ip(htonl(0x0a020203));

	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.networks.n, 0);
	set("peer", "networks", "10.1.0.0/16");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_true(mpib_networks_have(&cfg.networks, &in));
	assert_false(mpib_networks_have(&cfg.networks, &out));
	set("peer", "networks", "any");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_true(mpib_networks_have(&cfg.networks, &out));
	set("peer", "networks", "here");
	refused("here: peer.networks: \"here\" is no network");
}

static void classes_are_any_none_or_listed(void **state)
{
	static const char *const wrong[] = { "256", "26;27", "-1",
					     "26,", "",	     "all" };

	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_true(mpib_config_class(&cfg, 255));
	assert_false(mpib_config_class(&cfg, 256));
	set("qp", "traffic_classes", "none");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_false(mpib_config_class(&cfg, 26));
	set("qp", "traffic_classes", "26,0,255");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(mpib_config_class(&cfg, i),
				 i == 26 || i == 0 || i == 255);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set("qp", "traffic_classes", wrong[i]);
		refused("is no traffic class");
	}
}

static void a_software_rail_has_one_qp_unless_told(void **state)
{
	static const struct {
		const char *sout, *sup, *spread, *sup_qp;
		unsigned qps[MPIB_RAILS];
	} cases[] = {
		{ "soft", "soft", "split", NULL, { 1, 1 } },
		{ "soft", "soft", "split", "4", { 1, 4 } },
		{ "soft", "soft", "spray", NULL, { 2, 4 } },
		{ "soft", "none", "split", NULL, { 1, 4 } },
		{ "rdma:fake_0", "rdma:fake_1", "split", NULL, { 2, 4 } },
		{ "rdma:fake_0", "soft:127.24.1.1", "split", NULL, { 2, 1 } },
		{ "rdma:fake_0", "rdma:fake_1", "split", "1", { 2, 1 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fresh(state);
		set("hca", "sout", cases[i].sout);
		set("hca", "sup", cases[i].sup);
		set("lane", "spread", cases[i].spread);
		if (cases[i].sup_qp)
			set("sup", "qp", cases[i].sup_qp);
		assert_int_equal(mpib_config_finish(&cfg, why), 0);
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			assert_int_equal(cfg.engine.qps[r], cases[i].qps[r]);
	}
}

#define TEST(f) cmocka_unit_test_setup(f, fresh)

const struct CMUnitTest test_list[] = {
	TEST(what_the_start_would_refuse_is_refused_here_and_at_once),
	TEST(a_key_that_is_none_is_refused_here_too),
	TEST(the_peer_link_has_one_address_or_two),
	TEST(what_does_not_fit_together_is_refused),
	TEST(what_no_connection_could_live_with_is_refused),
	TEST(all_that_is_wrong_is_told_at_once),
	TEST(the_built_in_interval_of_signals_gives_way),
	TEST(the_mode_follows_what_else_is_given),
	TEST(isolation_wants_to_know_the_islands),
	TEST(peers_are_in_networks),
	TEST(classes_are_any_none_or_listed),
	TEST(a_software_rail_has_one_qp_unless_told),
	{ 0 },
};
