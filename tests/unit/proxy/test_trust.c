/* SPDX-License-Identifier: Apache-2.0 */
/* stats/trust.h: which program a command may name, and who may give one. */
#include "stats/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

static char why[200];

static void put(const char *name, mode_t mode)
{
	int fd = open(scratch_path(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int trust(const char *name)
{
	return mpib_trust_path(scratch_path(name), geteuid(), why, sizeof(why));
}

static void a_program_of_who_asks_is_taken(void **state)
{
	put("program", 0755);
	assert_int_equal(trust("program"), 0);
	assert_int_equal(mpib_trust_path("/", 0, why, sizeof(why)), 0);
}

static void what_others_may_write_is_refused(void **state)
{
	put("program", 0775);
	assert_int_equal(trust("program"), -EPERM);
	put("program", 0757);
	assert_int_equal(trust("program"), -EPERM);
	assert_non_null(strstr(why, "may write there"));
}

static void so_is_what_lies_where_others_may_write(void **state)
{
	assert_int_equal(mkdir(scratch_path("dir"), 0700), 0);
	put("dir/program", 0755);
	assert_int_equal(trust("dir/program"), 0);
	assert_int_equal(chmod(scratch_path("dir"), 0770), 0);
	assert_int_equal(trust("dir/program"), -EPERM);
	/* With the sticky bit nobody else replaces what is there. */
	assert_int_equal(chmod(scratch_path("dir"), 01777), 0);
	assert_int_equal(trust("dir/program"), 0);
}

static void somebody_elses_program_is_refused(void **state)
{
	put("program", 0755);
	if (geteuid() == 0) {
		assert_int_equal(chown(scratch_path("program"), 61001, 0), 0);
		assert_int_equal(trust("program"), -EPERM);
		assert_non_null(strstr(why, "belongs to uid 61001"));
	} else {
		assert_int_equal(mpib_trust_path(scratch_path("program"),
						 geteuid() + 1, why,
						 sizeof(why)),
				 -EPERM);
	}
}

static void a_link_or_a_path_that_is_not_whole_is_refused(void **state)
{
	char target[256];

	put("program", 0755);
	snprintf(target, sizeof(target), "%s", scratch_path("program"));
	assert_int_equal(symlink(target, scratch_path("link")), 0);
	assert_int_equal(trust("link"), -EINVAL);
	assert_int_equal(trust("./program"), -EINVAL);
	assert_int_equal(trust("nothing"), -EINVAL);
	assert_int_equal(mpib_trust_path("program", 0, why, sizeof(why)),
			 -EINVAL);
}

static void a_caller_of_ones_own_namespaces_is_believed(void **state)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(mpib_trust_caller(pair[0], why, sizeof(why)), 0);
	/* What is no connection has nobody behind it. */
	assert_int_equal(mpib_trust_caller(0, why, sizeof(why)), -EPERM);
	close(pair[0]);
	close(pair[1]);
}

#define TRUST_TEST(f)                                                          \
	cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

const struct CMUnitTest test_list[] = {
	TRUST_TEST(a_program_of_who_asks_is_taken),
	TRUST_TEST(what_others_may_write_is_refused),
	TRUST_TEST(so_is_what_lies_where_others_may_write),
	TRUST_TEST(somebody_elses_program_is_refused),
	TRUST_TEST(a_link_or_a_path_that_is_not_whole_is_refused),
	cmocka_unit_test(a_caller_of_ones_own_namespaces_is_believed),
	{ 0 },
};
