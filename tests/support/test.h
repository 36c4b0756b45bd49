/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Includes cmocka, the headers that cmocka requires, and headers that nearly
 * every test uses.
 */
#ifndef MPIB_TESTS_TEST_H
#define MPIB_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Most tests do not use cmocka's argument `state`. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Skip the test, and print why it cannot run here. */
_Noreturn static inline void skip_as(const char *reason)
{
	print_message("SKIPPED: %s\n", reason);
	skip();
	abort(); /* skip() never returns, but is not declared _Noreturn */
}

static inline void assert_in(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/*
 * TEST(a_sentence) { ... } defines a test function with the argument `state`.
 * TEST_OF() defines a test with a setup and a teardown, which may be NULL.
 * main.c runs the tests of a program in the order of their lines.
 */
#define TEST_OF(f, before, after)                                              \
	static void f(void **state);                                           \
	__attribute__((constructor)) static void add_##f(void)                 \
	{                                                                      \
		test_add((struct CMUnitTest){ #f, f, before, after, NULL },    \
			 __LINE__);                                            \
	}                                                                      \
	static void f(void **state)
#define TEST(f) TEST_OF(f, NULL, NULL)
void test_add(struct CMUnitTest test, unsigned line);

/* WRAPS(int, close, int fd) { ... } defines the function that replaces close()
 * if the program is linked with --wrap=close. It can call __real_close(). */
#define WRAPS(type, name, ...)                                                 \
	type __real_##name(__VA_ARGS__);                                       \
	type __wrap_##name(__VA_ARGS__);                                       \
	type __wrap_##name(__VA_ARGS__)

/* A program may have a setup before all tests and a teardown after them. If the
 * program sets `test_times`, the program's first argument is a number, which
 * main() stores in *`test_times`. The second argument is a pattern of test
 * names to run. */
struct test_group {
	CMFixtureFunction setup, teardown;
};
extern struct test_group test_group;
extern unsigned *test_times;

/* fixture_test() defines a test with the functions setup() and teardown() of
 * its file. The other two macros use only one of them. */
#define fixture_test(f) TEST_OF(f, setup, teardown)
#define setup_test(f) TEST_OF(f, setup, NULL)
#define teardown_test(f) TEST_OF(f, NULL, teardown)

#endif
