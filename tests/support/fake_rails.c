/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Add the RDMA devices fake_0 to fake_3 of fake_ibv.h before main() begins.
 * This file is linked into tests that run two nodes on the rails of
 * MPIB_TEST_RAILS.
 */
#include "fake_ibv.h"

__attribute__((constructor)) static void add_devices(void)
{
	fake_ibv_reset();
	fake_ibv_add("fake_0", "127.41.4.1");
	fake_ibv_add("fake_1", "127.41.4.2");
	fake_ibv_add("fake_2", "127.41.4.3");
	fake_ibv_add("fake_3", "127.41.4.4");
}
