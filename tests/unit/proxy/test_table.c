/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/ctl/table.h: alignment, width, human numbers. */
#include "ctl/table.h"

#include "test.h"

static char *print(const struct mpib_table *t, unsigned width)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	mpib_table_print(t, width, f);
	fclose(f);
	return text;
}

static void text_is_left_and_numbers_are_right(void **state)
{
	static const char *const heads[] = { "NAME", "#N", "END", NULL };
	struct mpib_table t;
	char *text;

	mpib_table_init(&t, heads);
	mpib_table_row(&t);
	mpib_table_set(&t, 0, "a");
	mpib_table_set(&t, 1, "%d", 1234);
	mpib_table_set(&t, 2, "x");
	mpib_table_row(&t);
	mpib_table_set(&t, 0, "longer");
	mpib_table_set(&t, 1, "%d", 5);
	text = print(&t, 80);
	assert_string_equal(text, "NAME       N  END\n"
				  "a       1234  x\n"
				  "longer     5\n");
	free(text);
	mpib_table_fini(&t);
}

static void the_widest_text_gives_way(void **state)
{
	static const char *const heads[] = { "NAME", "#NUMBER", "PEER", NULL };
	struct mpib_table t;
	char *text;

	mpib_table_init(&t, heads);
	mpib_table_row(&t);
	mpib_table_set(&t, 0, "a-very-long-name-indeed");
	mpib_table_set(&t, 1, "1234567890123");
	mpib_table_set(&t, 2, "127.24.0.1:24790");
	text = print(&t, 40);
	assert_string_equal(text, "NAME                NUMBER  PEER\n"
				  "a-very-lon~  1234567890123  127.24.0.1:~\n");
	free(text);
	mpib_table_fini(&t);
}

static void many_rows_are_kept(void **state)
{
	static const char *const heads[] = { "#N", NULL };
	struct mpib_table t;
	char *text, *at;
	unsigned lines = 0;

	mpib_table_init(&t, heads);
	for (unsigned i = 0; i < 1000; i++) {
		mpib_table_row(&t);
		mpib_table_set(&t, 0, "%u", i);
	}
	text = print(&t, 80);
	for (at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, 1001);
	assert_non_null(strstr(text, "999\n"));
	free(text);
	mpib_table_fini(&t);
}

static void assert_bytes(uint64_t n, const char *want)
{
	char buf[16];

	assert_string_equal(mpib_human_bytes(n, buf, sizeof(buf)), want);
	assert_true(strlen(buf) <= 8);
}

static void bytes_have_three_digits_and_a_binary_unit(void **state)
{
	assert_bytes(0, "0 B");
	assert_bytes(1023, "1023 B");
	assert_bytes(1024, "1.00 KiB");
	assert_bytes(10239, "10.0 KiB");
	assert_bytes(102348, "99.9 KiB");
	assert_bytes(102399, "100 KiB");
	assert_bytes(1023 * 1024 - 1, "1.00 MiB");
	assert_bytes(3ull << 30, "3.00 GiB");
	assert_bytes(UINT64_MAX, "16.0 EiB");
}

static void counts_have_three_digits_and_a_decimal_unit(void **state)
{
	char buf[16];

	assert_string_equal(mpib_human_count(999, buf, sizeof(buf)), "999");
	assert_string_equal(mpib_human_count(1000, buf, sizeof(buf)), "1.00 k");
	assert_string_equal(mpib_human_count(12345678, buf, sizeof(buf)),
			    "12.3 M");
	assert_string_equal(mpib_human_count(999999, buf, sizeof(buf)),
			    "1.00 M");
}

static void what_a_terminal_obeys_is_not_printed(void **state)
{
	static const char *const heads[] = { "NAME", NULL };
	struct mpib_table t;
	char *text;

	mpib_table_init(&t, heads);
	mpib_table_row(&t);
	mpib_table_set(&t, 0, "%s",
		       "\x1b]0;x\x07 \xc2\x9b"
		       "2J \x7f \xc3\xa9\n");
	text = print(&t, 80);
	assert_string_equal(text, "NAME\n"
				  "?]0;x? ??2J ? \xc3\xa9?\n");
	free(text);
	mpib_table_fini(&t);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(text_is_left_and_numbers_are_right),
	cmocka_unit_test(the_widest_text_gives_way),
	cmocka_unit_test(many_rows_are_kept),
	cmocka_unit_test(what_a_terminal_obeys_is_not_printed),
	cmocka_unit_test(bytes_have_three_digits_and_a_binary_unit),
	cmocka_unit_test(counts_have_three_digits_and_a_decimal_unit),
	{ 0 },
};
