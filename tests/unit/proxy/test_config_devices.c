/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/devices.c: devices that are named one by one, in files and on
 * the command line, and the names of their rails. */
#include <errno.h>
#include <stdio.h>

#include "config_fixture.h"

static char buf[MPIB_RAIL_LABEL_MAX];

static int flag(const char *value)
{
	return mpib_config_device_flag(&cfg, value, why);
}

static const char *label(unsigned rail)
{
	return mpib_config_rail_label(&cfg, rail, buf, sizeof(buf));
}

#define GPU(n)                                                                 \
	"[device gpu" #n "]\nsout = soft:127.85.1." #n                         \
	"\nsup = soft:127.85.2." #n "\n"

static void devices_of_a_file_come_in_its_order(void **state)
{
	assert_int_equal(read_file(GPU(7) GPU(3)), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices, 2);
	assert_int_equal(cfg.engine.rails, 2);
	assert_int_equal(mpib_config_rail_total(&cfg), 4);
	assert_string_equal(cfg.engine.rail[0].name, "127.85.1.7");
	assert_string_equal(cfg.engine.rail[1].name, "127.85.2.7");
	assert_string_equal(cfg.engine.rail[2].name, "127.85.1.3");
	assert_string_equal(cfg.engine.rail[3].name, "127.85.2.3");
	assert_string_equal(label(3), "gpu3.SUP");
	assert_string_equal(mpib_config_rail_device(&cfg, 1), "gpu7");
}

static void a_later_file_changes_one_rail_of_a_device(void **state)
{
	assert_int_equal(read_file(GPU(1) GPU(2)), 0);
	assert_int_equal(read_file("[device gpu1]\nsup = soft:127.85.9.9\n"),
			 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices, 2);
	assert_string_equal(cfg.engine.rail[0].name, "127.85.1.1");
	assert_string_equal(cfg.engine.rail[1].name, "127.85.9.9");
}

static void those_of_the_command_line_take_the_place_of_files(void **state)
{
	assert_int_equal(read_file(GPU(1) GPU(2) GPU(3)), 0);
	assert_int_equal(flag("soft:127.85.3.1"), 0);
	assert_int_equal(flag("soft:127.85.3.2"), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices, 2);
	assert_int_equal(cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[1].name, "127.85.3.2");
	assert_string_equal(label(1), "1.SOUT");
}

static void one_device_s_rails_have_the_names_they_always_had(void **state)
{
	assert_int_equal(flag("soft:127.85.3.1,soft:127.85.3.2"), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_string_equal(label(0), "SOUT");
	assert_string_equal(label(1), "SUP");
	assert_int_equal(mpib_config_rail_find(&cfg, "sup"), 1);
	assert_int_equal(mpib_config_rail_find(&cfg, "0.SUP"), -1);
}

static void a_rail_is_found_by_what_it_is_called(void **state)
{
	assert_int_equal(read_file(GPU(1) GPU(2)), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(mpib_config_rail_find(&cfg, "gpu2.sout"), 2);
	assert_int_equal(mpib_config_rail_find(&cfg, "gpu1.SUP"), 1);
	assert_int_equal(mpib_config_rail_find(&cfg, "SUP"), -1);
	assert_int_equal(mpib_config_rail_find(&cfg, ""), -1);
}

static void refused(const char *file, const char *device, const char *what)
{
	int rc;

	mpib_config_init(&cfg);
	rc = file ? read_file(file) : 0;
	if (rc == 0 && device)
		rc = flag(device);
	if (rc == 0)
		rc = mpib_config_finish(&cfg, why);
	assert_int_equal(rc, -EINVAL);
	assert_in(why, what);
}

static void what_makes_no_device_is_refused_in_words(void **state)
{
	char all[40 * 64] = "";

	refused("[device gpu.1]\nsout = a\n", NULL, "gpu.1: is no name");
	refused("[device ]\nsout = a\n", NULL, "is no name");
	refused("[device a]\nspeed = 4\n", NULL,
		"device a: has no such setting (give sout and sup)");
	refused(GPU(1) "[device b]\nsout = soft:127.85.1.9\n", NULL,
		"device b has one rail, and device gpu1 two");
	refused("[device a]\nsup = soft:127.85.1.9\n", NULL, "device a: sout");
	refused("[device a]\nsout = soft:300.1\n", NULL, "device a: sout");
	refused(GPU(1) "[hca]\nsup = none\n", NULL, "hca.sup is given, and");
	refused("[proxy]\nthreads = 9\n" GPU(1) GPU(2), NULL,
		"proxy.threads = 9 for each of 2 devices");
	refused(NULL, "soft:127.85.1.1,soft:127.85.1.1", "both rails are");
	for (unsigned i = 0; i < 17; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all),
			 "[device d%u]\nsout = soft:127.85.4.%u\n", i, i + 1);
	refused(all, NULL, "d16: there are 16 devices already");
}

static void what_is_dumped_can_be_read_again(void **state)
{
	struct mpib_config again;
	char text[1 << 15] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_int_equal(read_file(GPU(1) GPU(2)), 0);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	mpib_config_dump(&cfg, out);
	fclose(out);
	again = cfg;
	mpib_config_init(&cfg);
	if (read_file(text) < 0 || mpib_config_finish(&cfg, why) < 0)
		fail_msg("%s", why);
	assert_memory_equal(cfg.engine.rail, again.engine.rail,
			    sizeof(cfg.engine.rail));
	assert_int_equal(cfg.engine.devices, 2);
}

#define t(f) cmocka_unit_test_setup_teardown(f, fresh, scratch_remove)

const struct CMUnitTest test_list[] = {
	t(devices_of_a_file_come_in_its_order),
	t(a_later_file_changes_one_rail_of_a_device),
	t(those_of_the_command_line_take_the_place_of_files),
	t(one_device_s_rails_have_the_names_they_always_had),
	t(a_rail_is_found_by_what_it_is_called),
	t(what_makes_no_device_is_refused_in_words),
	t(what_is_dumped_can_be_read_again),
	{ 0 },
};
