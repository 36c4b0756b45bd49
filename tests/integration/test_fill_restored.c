/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a proxy that takes over finds of the memory of regions, whose owners may have
 * changed it since.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/handover/handover.h"
#include "filled.h"
#include "test.h"

/* What a proxy that takes over finds of a user's page, which its owner may seal when
 * it is mapped: why the owner is to go; NULL: it may stay. */
static const char *restored_of(struct mpib_quota_user *user, bool dmabuf,
			       bool sealed)
{
	struct proxy_client_region like = { .handle = 9,
					    .size = 4096,
					    .dmabuf = dmabuf };
	int sock = attach();
	struct proxy_client *s = newest();
	struct mpib_quota_user *own = s->user;
	const char *unfit;

	like.fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(like.fd, 4096), 0);
	assert_int_equal(pwrite(like.fd, "x", 1, 0), 1);
	mpib_engine_halt(filled.engine);
	if (sealed)
		filled_sealed_when_mapped = like.fd;
	s->user = user ? user : own;
	assert_int_equal(proxy_client_region_restore(s, &like), 0);
	s->user = own;
	filled_sealed_when_mapped = -1;
	unfit = s->unfit;
	assert_int_equal(mpib_engine_run(filled.engine), 0);
	leave(sock);
	turn();
	return unfit;
}

static const char *restored(bool dmabuf, bool sealed)
{
	return restored_of(NULL, dmabuf, sealed);
}

static void memory_that_it_is_not_told_of_is_refused(void **state)
{
	int a = attach();

	filled_mincore_error = EPERM;
	ask_reg_holes(a, large);
	assert_int_equal(hear_status(a), -EACCES);
	/* Nor asks it again and again. */
	filled_mincore_error = EAGAIN;
	ask_reg(a, 0, 0, large);
	assert_int_equal(hear_status(a), -EAGAIN);
	assert_non_null(restored(false, false));
	filled_mincore_error = 0;
}

static void a_seal_before_it_is_mapped_ends_its_client_alone(void **state)
{
	for (unsigned dmabuf = 0; dmabuf < 2; dmabuf++) {
		const char *why = restored(dmabuf, true);

		assert_non_null(why);
		assert_non_null(strstr(why, "sealed"));
	}
}

static void memory_in_swap_is_read_in(void **state)
{
	assert_null(restored(false, false));
	filled_in_swap = 3;
	assert_null(restored(false, false));
	assert_int_equal(filled_in_swap, 0);
}

/* Who takes pages away has no time of others'. */
static void memory_that_does_not_come_takes_no_time_of_others(void **state)
{
	struct mpib_quota_user greedy = { 0 }, other = { 0 };

	filled_in_swap = UINT_MAX;
	for (unsigned i = 0; i < 4; i++)
		assert_non_null(restored_of(&greedy, false, false));
	filled_in_swap = 2;
	assert_null(restored_of(&other, false, false));
	assert_int_equal(filled_in_swap, 0);
}

/* Not for ever, however many users have memory that does not come. */
static void memory_that_is_not_there_is_not_waited_for(void **state)
{
	struct mpib_quota_user users[20] = { 0 };
	unsigned looks;

	filled_in_swap = UINT_MAX;
	for (unsigned i = 0; i < 20; i++)
		assert_non_null(restored_of(&users[i], false, false));
	looks = UINT_MAX - filled_in_swap;
	filled_in_swap = 0;
	/* Half a millisecond each, and one each when there is no time left. */
	assert_in_range(looks, 20, 600 + 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILL_TEST(memory_that_it_is_not_told_of_is_refused),
		FILL_TEST(a_seal_before_it_is_mapped_ends_its_client_alone),
		FILL_TEST(memory_in_swap_is_read_in),
		FILL_TEST(memory_that_does_not_come_takes_no_time_of_others),
		FILL_TEST(memory_that_is_not_there_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, filled_start, filled_stop);
}
