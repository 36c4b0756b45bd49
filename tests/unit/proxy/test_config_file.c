/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/file.c: the form of a file, and what is wrong with one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_fixture.h"

static void a_file_sets_what_it_names(void **state)
{
	assert_int_equal(read_file("; a comment\n[sup]\nbw = 256\n  qp=3\n"
				   "[lane]\nmode = private\nwindow = 2M\n"),
			 0);
	assert_int_equal(cfg.engine.sup_bw, 256);
	assert_int_equal(cfg.engine.qps[1], 3);
	assert_int_equal(cfg.lanes, MPIB_LANES_PRIVATE);
	assert_int_equal(cfg.engine.lane_window, 2 << 20);
}

static void the_origin_names_file_and_line(void **state)
{
	const struct mpib_setting *bw = mpib_config_find("sup", "bw");
	char want[160];

	assert_int_equal(read_file("[sup]\n\nbw = 256\n"), 0);
	snprintf(want, sizeof(want), "%s:3", scratch_path("f.conf"));
	assert_string_equal(cfg.origin[bw - mpib_settings], want);
}

static void an_unknown_key_names_its_line_and_the_nearest(void **state)
{
	assert_int_equal(read_file("[sup]\nqp = 1\nbww = 3\n"), -EINVAL);
	assert_in(why, "f.conf:3: unknown setting \"sup.bww\" (did you mean "
		       "sup.bw?)");
}

static void an_unknown_section_names_the_nearest(void **state)
{
	assert_int_equal(read_file("[lanes]\nmode = shared\n"), -EINVAL);
	assert_in(why,
		  "f.conf:2: unknown section \"lanes\" (did you mean lane?)");
}

static void a_line_that_is_none_is_told(void **state)
{
	assert_int_equal(read_file("[sup]\nbw 3\n"), -EINVAL);
	assert_in(why, "f.conf:2: neither [section] nor key = value");
}

static void blanks_and_comments_are_none_of_a_value(void **state)
{
	assert_int_equal(
		read_file("\xef\xbb\xbf[sup] # of both\r\n\tbw=256 ;half\r\n"
			  "  # qp = 9\n; qp = 9\nqp: 3\r\n\r\n"
			  "[run]\ndir = /a;b#c  ; d\ngroup ="),
		0);
	assert_int_equal(cfg.engine.sup_bw, 256);
	assert_int_equal(cfg.engine.qps[1], 3);
	assert_string_equal(cfg.run_dir, "/a;b#c");
	assert_string_equal(cfg.run_group, "");
	assert_int_equal(read_file(""), 0);
}

/* A list of 32 networks is one. */
static void a_value_may_be_as_long_as_its_setting(void **state)
{
	char text[600] = "[peer]\nnetworks = ";

	for (unsigned i = 0; i < 32; i++)
		sprintf(text + strlen(text), "%s10.%u.0.0/16", i ? "," : "",
			100 + i);
	strcat(text, "\n[sup]\nbw = 7\n");
	assert_int_equal(read_file(text), 0);
	assert_int_equal(strlen(cfg.peer_networks), 32 * 14 - 1);
	assert_int_equal(cfg.engine.sup_bw, 7);
}

static void a_directory_is_told(void **state)
{
	assert_int_equal(mpib_config_read_file(&cfg, scratch_path("."), why),
			 -EIO);
	assert_in(why, "Is a directory (name a readable file)");
}

static void a_value_too_long_is_told(void **state)
{
	char text[1200];

	memset(text, 'x', sizeof(text));
	memcpy(text, "[run]\ndir = /", 13);
	strcpy(text + sizeof(text) - 2, "\n");
	assert_int_equal(read_file(text), -EINVAL);
	assert_in(why, "is too long (give at most 95 bytes)");
}

/* As after a crash, where a file was about to be written. */
static void a_file_of_zeros_is_not_an_empty_one(void **state)
{
	FILE *f = fopen(scratch_path("f.conf"), "we");

	assert_non_null(f);
	assert_int_equal(fwrite((char[300]){ 0 }, 1, 300, f), 300);
	fclose(f);
	assert_int_equal(
		mpib_config_read_file(&cfg, scratch_path("f.conf"), why),
		-EINVAL);
	assert_in(why, "f.conf:1: neither [section] nor key = value");
}

/* Nobody writes into it, so that who opens one to read waits for ever. */
static void a_pipe_in_its_place_is_refused_at_once(void **state)
{
	assert_int_equal(mkfifo(scratch_path("f.conf"), 0600), 0);
	alarm(20);
	assert_int_equal(
		mpib_config_read_file(&cfg, scratch_path("f.conf"), why),
		-EINVAL);
	alarm(0);
	assert_in(why, "f.conf: it is no regular file (name a readable file)");
}

static void of_devices_only_null_is_a_file(void **state)
{
	assert_int_equal(mpib_config_read_file(&cfg, "/dev/null", why), 0);
	assert_int_equal(mpib_config_read_file(&cfg, "/dev/full", why),
			 -EINVAL);
	assert_in(why, "/dev/full: it is no regular file");
}

static void a_long_line_is_told_and_the_next_is_read(void **state)
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

static long resident_kib(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_maxrss;
}

static void a_line_without_end_takes_no_memory(void **state)
{
	long before = resident_kib();

	scratch_write("f.conf", "");
	assert_int_equal(truncate(scratch_path("f.conf"), 256 << 20), 0);
	assert_int_equal(
		mpib_config_read_file(&cfg, scratch_path("f.conf"), why),
		-EINVAL);
	assert_in(why, "f.conf:1: the line is too long");
	assert_in_range(resident_kib() - before, 0, 8 << 10);
}

static void a_bad_value_keeps_the_old_one(void **state)
{
	assert_int_equal(read_file("[sup]\nbw = 1025\n"), -EINVAL);
	assert_in(why, "f.conf:2: sup.bw = \"1025\" is out of range (give 0 to "
		       "1024)");
	assert_int_equal(cfg.engine.sup_bw, 512);
}

#define SCRATCH_TEST(f)                                                        \
	cmocka_unit_test_setup_teardown(f, fresh, scratch_remove)

const struct CMUnitTest test_list[] = {
	SCRATCH_TEST(a_file_sets_what_it_names),
	SCRATCH_TEST(the_origin_names_file_and_line),
	SCRATCH_TEST(an_unknown_key_names_its_line_and_the_nearest),
	SCRATCH_TEST(an_unknown_section_names_the_nearest),
	SCRATCH_TEST(a_line_that_is_none_is_told),
	SCRATCH_TEST(blanks_and_comments_are_none_of_a_value),
	SCRATCH_TEST(a_value_may_be_as_long_as_its_setting),
	SCRATCH_TEST(a_directory_is_told),
	SCRATCH_TEST(a_value_too_long_is_told),
	SCRATCH_TEST(a_file_of_zeros_is_not_an_empty_one),
	SCRATCH_TEST(a_pipe_in_its_place_is_refused_at_once),
	SCRATCH_TEST(of_devices_only_null_is_a_file),
	SCRATCH_TEST(a_long_line_is_told_and_the_next_is_read),
	SCRATCH_TEST(a_line_without_end_takes_no_memory),
	SCRATCH_TEST(a_bad_value_keeps_the_old_one),
	{ 0 },
};
