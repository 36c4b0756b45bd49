/* SPDX-License-Identifier: Apache-2.0 */
/*
 * return.h: when the proxy starts a successor because a lost device works
 * again. The test replaces the engine, the devices and the upgrade, and sets
 * the clock.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/event.h"
#include "proxy.h"
#include "test.h"
#include "view/view.h"

#define HOLD_MS 3000

static struct mpib_proxy proxy;
static unsigned lost;
/* result of opening the devices: 0 or -errno; read by a thread */
static atomic_int there;
static atomic_bool sup_stays; /* SUP cannot be opened, whatever `there` is */
static uint64_t seen;
static char said[256];

uint32_t mpib_engine_lost(const struct mpib_engine *engine)
{
	return lost;
}

int mpib_rail_there(const struct mpib_rail_spec *spec)
{
	if (!strcmp(spec->name, "sup") && atomic_load(&sup_stays))
		return -ENETDOWN;
	return atomic_load(&there);
}

/* The configuration calls this for an invalid device name. All names of this
 * test are valid. */
int mpib_why_fail(char *why, int rc, const char *fmt, ...)
{
	fail_msg("%d: %s", rc, fmt);
	return rc;
}

static unsigned successors;

void mpib_upgrade_begin(struct mpib_upgrade *u, const char *path)
{
	assert_string_equal(path, "");
	successors++;
}

/* Return the text of the only event since the last call, or "" if there was
 * none. */
static const char *news(void)
{
	struct mpib_event e[2];
	unsigned n = mpib_events_after(seen, e, 2, &seen);

	assert_true(n <= 1);
	if (n)
		assert_string_equal(e[0].kind, "device_back");
	assert_int_equal(successors, n);
	successors = 0;
	snprintf(said, sizeof(said), "%s", n ? e[0].text : "");
	return said;
}

static int setup(void **state)
{
	memset(&proxy, 0, sizeof(proxy));
	assert_int_equal(mpib_loop_init(&proxy.loop), 0);
	mpib_loop_advance(&proxy.loop, MPIB_SEC);
	proxy.cfg.engine.devices = 1;
	proxy.cfg.engine.rails = 2;
	proxy.cfg.engine.hold_ms = HOLD_MS;
	snprintf(proxy.cfg.engine.rail[0].label,
		 sizeof(proxy.cfg.engine.rail[0].label), "SOUT");
	snprintf(proxy.cfg.engine.rail[1].label,
		 sizeof(proxy.cfg.engine.rail[1].label), "SUP");
	proxy.upgrade.link = -1;
	lost = 0;
	atomic_store(&there, -ENODEV);
	atomic_store(&sup_stays, false);
	snprintf(proxy.cfg.engine.rail[1].name,
		 sizeof(proxy.cfg.engine.rail[1].name), "sup");
	mpib_return_start(&proxy.returns, &proxy);
	news();
	return 0;
}

static int teardown(void **state)
{
	mpib_timer_disarm(&proxy.loop, &proxy.returns.timer);
	mpib_loop_fini(&proxy.loop);
	return 0;
}

/* Let `s` seconds pass. If a check of the devices begins, wait until it
 * ends. */
static void pass(unsigned s)
{
	while (s--) {
		mpib_loop_advance(&proxy.loop, MPIB_SEC);
		mpib_loop_turn(&proxy.loop, 0);
		while (proxy.returns.look >= 0)
			mpib_loop_turn(&proxy.loop, MPIB_FOREVER);
	}
}

static const char sup_is_back[] =
	"SUP: works again; a successor is started to open it";
static const char both_are_back[] =
	"SOUT and SUP: works again; a successor is started to open it";

fixture_test(a_successor_is_started_once_after_the_hold_down)
{
	pass(5);
	lost = 1u << MPIB_RAIL_SUP;
	pass(60);
	assert_string_equal(news(), "");
	atomic_store(&there, 0);
	pass(HOLD_MS / 1000);
	assert_string_equal(news(), "");
	pass(1);
	assert_string_equal(news(), sup_is_back);
	pass(60);
	assert_string_equal(news(), "");
	/* Both devices are lost, and work again immediately. */
	lost = 3;
	pass(HOLD_MS / 1000 + 1);
	assert_string_equal(news(), both_are_back);
}

/* For example, after a boot of the node, the ports come up one by one. */
fixture_test(without_any_rail_the_first_working_device_is_enough)
{
	lost = 3;
	atomic_store(&sup_stays, true);
	pass(5);
	assert_string_equal(news(), "");
	atomic_store(&there, 0);
	pass(HOLD_MS / 1000 + 1);
	assert_string_equal(news(), both_are_back);
}

/* If a device fails repeatedly, the 30 s limit how often this pauses jobs. */
fixture_test(a_proxy_serves_for_30_s_before_it_has_a_successor)
{
	lost = 1u << MPIB_RAIL_SUP;
	atomic_store(&there, 0);
	pass(29);
	assert_string_equal(news(), "");
	pass(1);
	assert_string_equal(news(), sup_is_back);
}

fixture_test(a_successor_waits_for_an_upgrade_in_progress)
{
	lost = 1u << MPIB_RAIL_SUP;
	atomic_store(&there, 0);
	proxy.upgrade.link = 7;
	pass(60);
	assert_string_equal(news(), "");
	proxy.upgrade.link = -1;
	pass(1);
	assert_string_equal(news(), sup_is_back);
}

fixture_test(while_a_rail_works_all_lost_devices_are_waited_for)
{
	lost = 1u << MPIB_RAIL_SUP;
	atomic_store(&sup_stays, true);
	atomic_store(&there, 0);
	pass(60);
	assert_string_equal(news(), "");
}

/* Each of two devices has SOUT and SUP. Only the first of the lost HCAs works
 * again. */
fixture_test(rails_of_all_devices_are_waited_for)
{
	proxy.cfg.engine.devices = 2;
	for (unsigned i = 1; i < 4; i++)
		snprintf(proxy.cfg.engine.rail[i].name,
			 sizeof(proxy.cfg.engine.rail[i].name), "sup");
	atomic_store(&sup_stays, true);
	atomic_store(&there, 0);
	/* Two rails are lost, which are as many as one device has. But each
	 * device still has a working rail. */
	lost = 1u << 0 | 1u << 2;
	pass(60);
	assert_string_equal(news(), "");
	lost = 15;
	pass(HOLD_MS / 1000 + 1);
	assert_string_not_equal(news(), "");
}

fixture_test(a_device_that_fails_again_is_held_down_again)
{
	lost = 1u << MPIB_RAIL_SOUT;
	for (unsigned i = 0; i < 4; i++) {
		atomic_store(&there, 0);
		pass(HOLD_MS / 1000);
		atomic_store(&there, -ENODEV);
		pass(1);
	}
	assert_string_equal(news(), "");
}
