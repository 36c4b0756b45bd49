/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config: what mpib-proxy --check-config does not show. settings.cases
 * tests the rest. */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];

static int fresh(void **state)
{
	mpib_config_init(&cfg);
	why[0] = '\0';
	snprintf(cfg.sout, sizeof(cfg.sout), "soft");
	return scratch_make(state);
}

static int set(const char *section, const char *key, const char *value)
{
	const struct mpib_setting *s = mpib_config_find(section, key);

	assert_non_null(s);
	return mpib_config_set(&cfg, s, value, "here", why);
}

static void finish(void)
{
	if (mpib_config_finish(&cfg, why) < 0)
		fail_msg("%s", why);
}

static int read_file(const char *text)
{
	scratch_write("f.conf", text);
	return mpib_config_read_file(&cfg, scratch_path("f.conf"), why);
}

#define CASE(name) TEST_OF(name, fresh, scratch_remove)

CASE(every_default_is_in_its_own_range)
{
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		char value[128];

		mpib_config_value(&cfg, &mpib_settings[i], value,
				  sizeof(value));
		if (mpib_config_set(&cfg, &mpib_settings[i], value, "x", why))
			fail_msg("%s", why);
	}
}

CASE(files_in_conf_d_override_mpib_conf_in_the_order_of_names)
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

CASE(a_conf_d_that_cannot_be_read_is_an_error)
{
	/* conf.d is a file instead of a directory */
	scratch_write("conf.d", "[sup]\nbw = 3\n");
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), -ENOTDIR);
	assert_in(why, "/conf.d: Not a directory (");
	/* An error in mpib.conf must be reported, too. */
	scratch_write("mpib.conf", "[sup]\nbw = 1025\n");
	assert_int_equal(mpib_config_read_dir(&cfg, scratch, why), -EINVAL);
	assert_in(why, "out of range");
	assert_in(why, "/conf.d: Not a directory (");
}

/* No process writes to the pipe, so a blocking open would never return. */
CASE(a_pipe_instead_of_the_file_is_refused_at_once)
{
	assert_int_equal(mkfifo(scratch_path("f.conf"), 0600), 0);
	alarm(20);
	assert_int_equal(
		mpib_config_read_file(&cfg, scratch_path("f.conf"), why),
		-EINVAL);
	alarm(0);
	assert_in(why,
		  "f.conf: it is not a regular file (name a readable file)");
}

CASE(a_long_line_is_an_error_and_the_next_line_is_read)
{
	static char text[20000];

	memset(text, ';', sizeof(text));
	strcpy(text + 4095, "\n[sup]\nbw = 7\n");
	assert_int_equal(read_file(text), 0);
	assert_int_equal(cfg.engine.sup_bw, 7);
	memset(text + 4095, ';', sizeof(text) - 4095);
	strcpy(text + sizeof(text) - 20, "\n[sup]\nbw = 9\nx\n");
	assert_int_equal(read_file(text), -EINVAL);
	assert_in(why, "f.conf:1: the line is too long (give at most 4095 "
		       "bytes)\n");
	assert_in(why, "f.conf:4: neither");
	assert_int_equal(cfg.engine.sup_bw, 9);
}

CASE(a_very_large_file_is_refused_and_uses_no_memory)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	scratch_write("f.conf", "");
	assert_int_equal(truncate(scratch_path("f.conf"), 256 << 20), 0);
	assert_int_equal(
		mpib_config_read_file(&cfg, scratch_path("f.conf"), why),
		-EFBIG);
	assert_in(why, "f.conf: it is larger than 1 MiB (name a readable "
		       "file)");
	getrusage(RUSAGE_SELF, &after);
	assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 8 << 10);
}

#define GPU(n)                                                                 \
	"[device gpu" #n "]\nsout = soft:127.85.1." #n                         \
	"\nsup = soft:127.85.2." #n "\n"

CASE(a_dump_is_a_file_with_the_same_settings)
{
	struct mpib_config again;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cfg.sout[0] = '\0';
	assert_int_equal(read_file(GPU(1) GPU(2)), 0);
	set("sup", "bw", "77");
	set("lane", "mode", "private");
	finish();
	mpib_config_dump(&cfg, f);
	fclose(f);
	again = cfg;
	mpib_config_init(&cfg);
	if (read_file(text) < 0)
		fail_msg("%s", why);
	finish();
	free(text);
	assert_memory_equal(cfg.engine.rail, again.engine.rail,
			    sizeof(cfg.engine.rail));
	assert_int_equal(cfg.engine.sup_bw, 77);
	assert_int_equal(cfg.lanes, MPIB_LANES_PRIVATE);
}

CASE(a_rail_can_be_found_by_its_name_and_by_its_label)
{
	cfg.sout[0] = '\0';
	assert_int_equal(read_file(GPU(7) GPU(3)), 0);
	finish();
	assert_string_equal(cfg.engine.rail[1].name, "127.85.2.7");
	assert_string_equal(cfg.engine.rail[2].name, "127.85.1.3");
	assert_string_equal(cfg.engine.rail[3].label, "gpu3.SUP");
	assert_int_equal(mpib_config_rail_find(&cfg, "gpu3.sout", 9), 2);
	assert_int_equal(mpib_config_rail_find(&cfg, "SUP", 3), -1);
	assert_int_equal(mpib_config_rail_find(&cfg, "", 0), -1);
	/* In a node with one device, the labels are the names of the rails. */
	assert_int_equal(scratch_remove(state) | fresh(state), 0);
	finish();
	assert_int_equal(mpib_config_rail_find(&cfg, "sup", 3), 1);
	assert_int_equal(mpib_config_rail_find(&cfg, "0.SUP", 5), -1);
}

CASE(there_can_be_at_most_sixteen_devices)
{
	char all[40 * 64] = "";

	for (unsigned i = 0; i < 17; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all),
			 "[device d%u]\nsout = soft:127.85.4.%u\n", i, i + 1);
	assert_int_equal(read_file(all), -EINVAL);
	assert_in(why, "d16: there are 16 devices already");
}

CASE(mode_auto_depends_on_the_other_settings)
{
	static const struct {
		const char *mode, *bw, *prefix;
		enum mpib_mode is;
	} row[] = {
		{ "auto", NULL, NULL, MPIB_MODE_ADAPTIVE },
		{ "auto", "512", NULL, MPIB_MODE_STATIC },
		{ "auto", NULL, "24", MPIB_MODE_VANILLA },
		{ "auto", "512", "24", MPIB_MODE_VANILLA },
		{ "adaptive", "512", "24", MPIB_MODE_ADAPTIVE },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(scratch_remove(state) | fresh(state), 0);
		set("policy", "mode", row[i].mode);
		if (row[i].bw)
			set("sup", "bw", row[i].bw);
		if (row[i].prefix)
			set("island", "prefix", row[i].prefix);
		finish();
		assert_int_equal(cfg.engine.mode, row[i].is);
	}
}

CASE(traffic_classes_can_be_any_none_or_a_list)
{
	finish();
	assert_true(mpib_config_class(&cfg, 255));
	assert_false(mpib_config_class(&cfg, 256));
	set("qp", "traffic_classes", "none");
	finish();
	assert_false(mpib_config_class(&cfg, 26));
	set("qp", "traffic_classes", "26,0,255");
	finish();
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(mpib_config_class(&cfg, i),
				 i == 26 || i == 0 || i == 255);
}
