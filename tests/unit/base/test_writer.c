/* SPDX-License-Identifier: Apache-2.0 */
/* base/writer.h: a write that blocks costs its caller nothing. */
#include "base/writer.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static char written[64];
static atomic_uint count;
static int gate[2];

static void append(const void *data, size_t len)
{
	memcpy(written + strlen(written), data, len);
	atomic_fetch_add(&count, 1);
}

/* Blocks until the test opens the gate. */
static void pass_gate(const void *data, size_t len)
{
	char byte;

	(void)data;
	(void)len;
	assert_int_equal(read(gate[0], &byte, 1), 1);
	atomic_fetch_add(&count, 1);
}

static int reset(void **state)
{
	memset(written, 0, sizeof(written));
	atomic_store(&count, 0);
	return pipe(gate);
}

static void without_a_thread_the_caller_writes(void **state)
{
	static struct mpib_writer writer = MPIB_WRITER_INIT(writer);

	assert_true(mpib_writer_put(&writer, append, "a", 1));
	assert_string_equal(written, "a");
}

static void writes_keep_their_order(void **state)
{
	static struct mpib_writer writer = MPIB_WRITER_INIT(writer);

	assert_int_equal(mpib_writer_start(&writer), 0);
	assert_true(mpib_writer_put(&writer, append, "a", 1));
	assert_true(mpib_writer_put(&writer, append, "bc", 2));
	assert_true(mpib_writer_put(&writer, append, "d", 1));
	while (atomic_load(&count) < 3)
		usleep(1000);
	assert_string_equal(written, "abcd");
	mpib_writer_drain(&writer, 60000);
	assert_int_equal(mpib_writer_lost(&writer), 0);
}

static void a_write_that_blocks_blocks_no_caller(void **state)
{
	static struct mpib_writer writer = MPIB_WRITER_INIT(writer);
	static const char block[64 << 10];
	unsigned queued = 0, dropped = 0;

	assert_int_equal(mpib_writer_start(&writer), 0);
	for (unsigned i = 0; i < 2 * MPIB_WRITER_BYTES / sizeof(block); i++) {
		if (mpib_writer_put(&writer, pass_gate, block, sizeof(block)))
			queued++;
		else
			dropped++;
	}
	assert_int_equal(queued, MPIB_WRITER_BYTES / sizeof(block) - 1);
	assert_int_equal(mpib_writer_lost(&writer), dropped);
	assert_int_equal(mpib_writer_lost(&writer), 0);

	/* Draining gives up, and returns once the writes went through. */
	mpib_writer_drain(&writer, 1);
	assert_int_equal(atomic_load(&count), 0);
	assert_int_equal(write(gate[1], block, queued), queued);
	while (atomic_load(&count) < queued)
		mpib_writer_drain(&writer, 1000);
	mpib_writer_drain(&writer, 60000);
	assert_true(mpib_writer_put(&writer, append, "after", 5));
	while (atomic_load(&count) <= queued)
		usleep(1000);
	assert_string_equal(written, "after");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_a_thread_the_caller_writes,
				       reset),
		cmocka_unit_test_setup(writes_keep_their_order, reset),
		cmocka_unit_test_setup(a_write_that_blocks_blocks_no_caller,
				       reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
