/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/config.h: environment, ranges, errors that name their place. */
#include "config/config.h"

#include <errno.h>
#include <sys/stat.h>

#include "config_fixture.h"

static const struct mpib_setting *setting(const char *section, const char *key)
{
	const struct mpib_setting *s = mpib_config_find(section, key);

	if (!s)
		fail_msg("no setting %s.%s", section, key);
	return s;
}

static int set(const char *section, const char *key, const char *value)
{
	return mpib_config_set(&cfg, setting(section, key), value, "here", why);
}

static void the_defaults_are_complete(void **state)
{
	assert_int_equal(set("hca", "sout", "soft"), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[0].name, "127.0.0.1");
	assert_string_equal(cfg.engine.rail[1].name, "127.0.0.2");
	assert_int_equal(cfg.engine.sup_bw, 512);
	assert_int_equal(cfg.peer_port, 24790);
}

static void every_default_is_in_its_own_range(void **state)
{
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		char value[128];

		mpib_config_value(&cfg, &mpib_settings[i], value,
				  sizeof(value));
		if (mpib_config_set(&cfg, &mpib_settings[i], value, "x", why))
			fail_msg("%s", why);
	}
}

static void numbers_are_whole_and_in_range(void **state)
{
	static const char *const bad[] = {
		"",	"x",   "1x", " 1",   "-1",
		"0x10", "1.5", "1K", "1025", "99999999999999999999"
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (set("sup", "bw", bad[i]) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
	}
	assert_int_equal(set("sup", "bw", "0"), 0);
	assert_int_equal(set("sup", "bw", "1024"), 0);
	assert_int_equal(set("qp", "traffic_class", "-1"), 0);
	assert_int_equal(cfg.engine.traffic_class, -1);
	assert_int_equal(set("qp", "traffic_class", "-2"), -EINVAL);
	/* Every quiet peer would be dead. */
	assert_int_equal(set("peer", "silence", "1"), -EINVAL);
	assert_int_equal(set("peer", "silence", "2"), 0);
}

/* Numbers up to their ends and no further, in whole words. */
static void numbers_end_where_they_are_said_to(void **state)
{
	static const struct {
		const char *section, *key, *most;
	} row[] = {
		{ "qp", "rnr_retry", "7" },
		{ "qp", "min_rnr_timer", "31" },
		{ "share", "limit", "10000000" },
	};
	static const char *const wrong[] = { "-1",  "",	  " ",	"1G",
					     "1.5", "0x", "1 2" };

	for (unsigned i = 0; i < 3; i++) {
		const char *section = row[i].section, *key = row[i].key;
		char more[32];

		snprintf(more, sizeof(more), "%lld", atoll(row[i].most) + 1);
		assert_int_equal(set(section, key, more), -EINVAL);
		assert_in(why, more);
		assert_int_equal(set(section, key, "0"), 0);
		assert_int_equal(set(section, key, row[i].most), 0);
		for (unsigned k = 0; k < sizeof(wrong) / sizeof(*wrong); k++) {
			if (set(section, key, wrong[k]) != -EINVAL)
				fail_msg("%s.%s took \"%s\"", section, key,
					 wrong[k]);
		}
	}
	assert_int_equal(cfg.engine.rnr_retry, 7);
	assert_int_equal(cfg.engine.min_rnr_timer, 31);
	assert_int_equal(cfg.share_limit, 10000000);
}

static void sizes_take_binary_units(void **state)
{
	assert_int_equal(set("client", "window", "1M"), 0);
	assert_int_equal(cfg.window, 1 << 20);
	assert_int_equal(set("client", "window", "64KiB"), 0);
	assert_int_equal(cfg.window, 64 << 10);
	assert_int_equal(set("client", "window", "8192"), 0);
	assert_int_equal(cfg.window, 8192);
	assert_int_equal(set("limit", "memory", "3TB"), 0);
	assert_true(cfg.max_memory == 3ull << 40);
	assert_int_equal(set("client", "window", "1Q"), -EINVAL);
	assert_int_equal(set("client", "window", "2G"), -EINVAL);
	assert_int_equal(set("client", "window", "-1K"), -EINVAL);
	assert_int_equal(set("limit", "memory", "9000000T"), -EINVAL);
}

static void a_choice_lists_its_values(void **state)
{
	assert_int_equal(set("lane", "mode", "common"), -EINVAL);
	assert_in(why, "(give shared, private)");
}

static void text_too_long_is_refused(void **state)
{
	char text[200];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(set("run", "dir", text), -EINVAL);
	assert_in(why, "too long");
}

static void the_environment_wins_over_files(void **state)
{
	char bw[] = "MPIB_SUP_BW=7", other[] = "MPIB_SUP_BWW=x";
	char cts[] = "MPIB_CTS_SIGNAL_INTERVAL=64";
	char hca[] = "MPIB_HCA_SOUT=mlx5_0";
	char *env[] = { other, bw, cts, hca, NULL };

	assert_int_equal(read_file("[sup]\nbw = 256\n"), 0);
	assert_int_equal(mpib_config_read_env(&cfg, env, why), 0);
	assert_int_equal(cfg.engine.sup_bw, 7);
	assert_int_equal(cfg.engine.cts_signal, 64);
	assert_string_equal(cfg.sout, "mlx5_0");
	assert_string_equal(cfg.origin[setting("sup", "bw") - mpib_settings],
			    "environment MPIB_SUP_BW");
}

static void a_bad_environment_is_named(void **state)
{
	char bw[] = "MPIB_SUP_BW=much";
	char *env[] = { bw, NULL };

	assert_int_equal(mpib_config_read_env(&cfg, env, why), -EINVAL);
	assert_in(why, "environment MPIB_SUP_BW: sup.bw = \"much\" is not a "
		       "number");
}

static void what_kubernetes_makes_of_a_service_is_no_setting(void **state)
{
	char link[] = "MPIB_PEER_PORT=tcp://10.96.0.7:80";
	char *env[] = { link, NULL };

	assert_int_equal(mpib_config_read_env(&cfg, env, why), 0);
	strcpy(link, "MPIB_PEER_PORT=tcp");
	assert_int_equal(mpib_config_read_env(&cfg, env, why), -EINVAL);
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
	static const char *const line[] = {
		"mpib.conf:2: unknown setting \"sup.bww\"",
		"mpib.conf:4: sout.qp = \"x\" is not a number",
		"mpib.conf:5: neither [section]",
		"10-a.conf:2: sup.bw = \"1025\" is out of range",
	};
	unsigned ends = 0;

	mkdir(scratch_path("conf.d"), 0700);
	scratch_write("mpib.conf", "[sup]\nbww = 1\n[sout]\nqp = x\nhm\n");
	scratch_write("conf.d/10-a.conf", "[sup]\nbw = 1025\n");
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), -EINVAL);
	for (unsigned i = 0; i < sizeof(line) / sizeof(line[0]); i++)
		assert_in(why, line[i]);
	for (const char *c = why; (c = strchr(c, '\n')); c++)
		ends++;
	assert_int_equal(ends, 3);
	/* A thousand faults: whole lines, and no more than fit. */
	why[0] = '\0';
	for (unsigned i = 0; i < 1000; i++)
		mpib_config_why(why, "a line of thirty-two characters.");
	assert_true(strlen(why) < MPIB_WHY_MAX);
	assert_string_equal(why + strlen(why) - 11, "characters.");
}

static void conf_d_wins_over_mpib_conf_in_the_order_of_names(void **state)
{
	assert_int_equal(mkdir(scratch_path("conf.d"), 0700), 0);
	scratch_write("mpib.conf", "[sup]\nbw = 1\nqp = 1\n[sout]\nqp = 7\n");
	scratch_write("conf.d/20-b.conf", "[sup]\nbw = 3\n");
	scratch_write("conf.d/10-a.conf", "[sup]\nbw = 2\nqp = 2\n");
	scratch_write("conf.d/30-c.conf.old", "[sup]\nbw = 4\n");
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), 0);
	assert_int_equal(cfg.engine.sup_bw, 3);
	assert_int_equal(cfg.engine.qps[1], 2);
	assert_int_equal(cfg.engine.qps[0], 7);
}

static void a_conf_d_that_cannot_be_read_is_told(void **state)
{
	scratch_write("conf.d", "[sup]\nbw = 3\n"); /* no directory */
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), -ENOTDIR);
	assert_in(why, "/conf.d: Not a directory (");
	/* Beside what is wrong otherwise. */
	scratch_write("mpib.conf", "[sup]\nbw = 1025\n");
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), -EINVAL);
	assert_in(why, "out of range");
	assert_in(why, "\n");
	assert_in(why, "/conf.d: Not a directory (");
}

static void no_files_at_all_are_fine(void **state)
{
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), 0);
	assert_int_equal(mpib_config_read_file(&cfg, scratch_path("none"), why),
			 -ENOENT);
}

static void a_bare_device_is_an_rdma_one(void **state)
{
	assert_int_equal(set("hca", "sout", "mlx5_0:2"), 0);
	assert_int_equal(set("hca", "sup", "none"), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rail[0].provider, MPIB_PROVIDER_RDMA);
	assert_string_equal(cfg.engine.rail[0].name, "mlx5_0");
	assert_int_equal(cfg.engine.rail[0].port, 2);
	assert_int_equal(cfg.engine.rails, 1);
}

static void a_dump_is_a_file_that_gives_the_same(void **state)
{
	struct mpib_config again;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	set("sup", "bw", "77");
	set("lane", "mode", "private");
	set("qp", "traffic_class", "96");
	mpib_config_dump(&cfg, f);
	fclose(f);
	assert_non_null(strstr(text, "; here"));
	again = cfg;
	mpib_config_init(&cfg);
	assert_int_equal(read_file(text), 0);
	free(text);
	assert_memory_equal(&cfg, &again, offsetof(struct mpib_config, origin));
}

#define SCRATCH_TEST(f)                                                        \
	cmocka_unit_test_setup_teardown(f, fresh, scratch_remove)

static void the_mode_has_the_name_that_people_know(void **state)
{
	char mode[] = "MPIB_MODE=3", *env[] = { mode, NULL };

	assert_int_equal(mpib_config_read_env(&cfg, env, why), 0);
	assert_int_equal(cfg.mode, MPIB_MODE_STATIC);
	/* Numbers are for what is known by them. */
	assert_int_equal(set("lane", "mode", "1"), -EINVAL);
	assert_int_equal(set("policy", "mode", "5"), -EINVAL);
}

const struct CMUnitTest test_list[] = {
	SCRATCH_TEST(the_defaults_are_complete),
	SCRATCH_TEST(every_default_is_in_its_own_range),
	SCRATCH_TEST(numbers_are_whole_and_in_range),
	SCRATCH_TEST(numbers_end_where_they_are_said_to),
	SCRATCH_TEST(sizes_take_binary_units),
	SCRATCH_TEST(a_choice_lists_its_values),
	SCRATCH_TEST(text_too_long_is_refused),
	SCRATCH_TEST(the_environment_wins_over_files),
	SCRATCH_TEST(what_kubernetes_makes_of_a_service_is_no_setting),
	SCRATCH_TEST(a_bad_environment_is_named),
	SCRATCH_TEST(all_that_is_wrong_is_told_at_once),
	SCRATCH_TEST(conf_d_wins_over_mpib_conf_in_the_order_of_names),
	SCRATCH_TEST(a_conf_d_that_cannot_be_read_is_told),
	SCRATCH_TEST(no_files_at_all_are_fine),
	SCRATCH_TEST(a_bare_device_is_an_rdma_one),
	SCRATCH_TEST(a_dump_is_a_file_that_gives_the_same),
	SCRATCH_TEST(the_mode_has_the_name_that_people_know),
	{ 0 },
};
