/* SPDX-License-Identifier: Apache-2.0 */
/* base/lockfile.h, in a directory of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lockfile.h"
#include "test.h"

static char path[] = "/tmp/mpib-test.XXXXXX";
static int dir;

static int setup(void **state)
{
	dir = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			    : -1;
	return dir < 0;
}

static int teardown(void **state)
{
	unlinkat(dir, "lock", 0);
	close(dir);
	return rmdir(path);
}

static void one_has_it_until_its_file_is_closed(void **state)
{
	int one, two;

	assert_int_equal(mpib_lockfile_take(dir, "lock", &one), 0);
	assert_int_equal(mpib_lockfile_take(dir, "lock", &two), -EBUSY);
	close(two);
	close(one);
	assert_int_equal(mpib_lockfile_take(dir, "lock", &two), 0);
	close(two);
}

static void what_others_could_open_is_nobody_elses_from_then_on(void **state)
{
	struct stat st;
	int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(fchmod(fd, 0666), 0);
	close(fd);
	assert_int_equal(mpib_lockfile_take(dir, "lock", &fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	close(fd);
}

static void no_link_is_followed(void **state)
{
	int fd;

	unlinkat(dir, "lock", 0);
	assert_int_equal(symlinkat("elsewhere", dir, "lock"), 0);
	assert_int_equal(mpib_lockfile_take(dir, "lock", &fd), -ELOOP);
	assert_int_equal(fd, -1);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(one_has_it_until_its_file_is_closed),
	cmocka_unit_test(what_others_could_open_is_nobody_elses_from_then_on),
	cmocka_unit_test(no_link_is_followed),
	{ 0 },
};
struct test_group test_group = { setup, teardown };
