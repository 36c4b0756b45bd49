/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a program that was written for two nodes on any rails: four RDMA devices
 * of fake_ibv.h, fake_0 to fake_3, there before main(). MPIB_TEST_RAILS names
 * them.
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
