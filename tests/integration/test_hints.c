/* SPDX-License-Identifier: Apache-2.0 */
/* Hints in a file that belongs to another user's process. */
#include <mpib/agent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bus.h"
#include "engine_pair.h"

static struct pair pair;
static struct pair_end tx, rx;

/* It shortens the file that the proxy has mapped. */
static void an_agent_that_takes_its_hints_away_stops_nobody(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mpib_engine_config cfg;
	struct mpib_hint_shm *shm;
	int fd = memfd_create("hints", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(mpib_bus_catch(), 0);
	assert_int_equal(ftruncate(fd, (off_t)(2 * page)), 0);
	shm = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(shm, MAP_FAILED);
	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_ADVANCED;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	mpib_engine_set_hints(pair.node[0].engine, shm);
	pair_connect(&pair, 5, 0, &tx, &rx);
	engine_conn_set_hint(tx.conn, 7);
	mpib_hint_write(&shm->entries[7], 1024);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 3);
	assert_int_equal(ftruncate(fd, 0), 0);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 3);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 3);
	pair_close(&pair);
	munmap(shm, 2 * page);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			an_agent_that_takes_its_hints_away_stops_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
