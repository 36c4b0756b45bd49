/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/peer_link.c: what it says where nothing gives the peer link an address,
 * on a machine without any: in a network namespace of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/shard.h"
#include "fake_ibv.h"
#include "proxy.h"
#include "test.h"

static struct mpib_proxy proxy;
static struct fake_device *device;
static char why[MPIB_WHY_MAX];
static bool alone;

/* The loop-back interface carries the software HCA beneath fake devices. */
static bool loopback_up(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;

	if (fd >= 0)
		close(fd);
	return up;
}

static int setup(void **state)
{
	fake_ibv_reset();
	device = fake_ibv_add("fake_0", "127.41.5.1");
	proxy = (struct mpib_proxy){ 0 };
	mpib_config_init(&proxy.cfg);
	snprintf(proxy.cfg.sout, sizeof(proxy.cfg.sout), "rdma:fake_0");
	snprintf(proxy.cfg.sup, sizeof(proxy.cfg.sup), "none");
	return 0;
}

static int teardown(void **state)
{
	if (proxy.engine)
		mpib_engine_close(proxy.engine);
	return 0;
}

static void open_engine(void)
{
	if (!alone) {
		print_message("SKIPPED: no network namespace of its own\n");
		skip();
	}
	if (mpib_config_finish(&proxy.cfg, why) < 0 ||
	    mpib_engine_open_idle(&proxy.cfg.engine, NULL, NULL, &proxy.engine,
				  why, sizeof(why)) < 0)
		fail_msg("%s", why);
}

static void refused(const char *said)
{
	open_engine();
	assert_true(mpib_start_peer_link(&proxy, why) < 0);
	if (!strstr(why, said))
		fail_msg("\"%s\" does not say \"%s\"", why, said);
}

static void a_sout_without_an_address_is_told(void **state)
{
	device->port[0].attr.state = IBV_PORT_DOWN;
	device->port[0].gids = 0;
	refused("peer link: rail SOUT has no IPv4 address, and");
}

/* It may well have an address. */
static void a_sout_that_does_not_answer_is_told(void **state)
{
	fake_ibv_fails("ibv_open_device", EIO, 1);
	refused("peer link: rail SOUT does not answer, and");
}

static void so_it_is_where_islands_are_told_by_addresses(void **state)
{
	snprintf(proxy.cfg.peer_addr, sizeof(proxy.cfg.peer_addr), "fd00::1");
	proxy.cfg.island_prefix = 24;
	fake_ibv_fails("ibv_open_device", EIO, 1);
	refused("islands: rail SOUT does not answer, and");
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		t(a_sout_without_an_address_is_told),
		t(a_sout_that_does_not_answer_is_told),
		t(so_it_is_where_islands_are_told_by_addresses),
	};

	alone = unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && loopback_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
