/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator had set before an upgrade, in the form of the parcel. */
#include "base/serial.h"
#include "handover/settings.h"
#include "proxy.h"
#include "test.h"

static struct mpib_proxy p; /* large */

/* Unpack one setting; the shares behind it are missing, so none comes into force. */
static void unpack(const char *section, const char *key, const char *value)
{
	const char *const texts[] = { section, key, value, "set by uid 0" };
	struct mpib_serial out, in;
	uint32_t one = 1;

	mpib_serial_pack(&out);
	mpib_serial_mark(&out, "settings");
	mpib_serial_u32(&out, &one);
	for (unsigned i = 0; i < 4; i++) {
		char text[MPIB_VALUE_MAX];

		snprintf(text, sizeof(text), "%s", texts[i]);
		mpib_serial_text(&out, text, sizeof(text));
	}
	mpib_serial_unpack(&in, out.bytes, out.len, NULL, 0);
	out.bytes = NULL;
	mpib_serial_fini(&out);
	mpib_settings_serialize(&in, &p);
	assert_true(in.failed);
	mpib_serial_fini(&in);
}

static void what_fits_is_kept(void **state)
{
	mpib_config_init(&p.cfg);
	unpack("quota", "requests", "1000000");
	assert_int_equal(p.cfg.quota[MPIB_QUOTA_REQUESTS], 1000000);
	unpack("share", "rules", "uid=7:weight=3");
	assert_string_equal(p.cfg.share_rules, "uid=7:weight=3");
}

/* A newer program may ask more of a value than the one that took it. */
static void what_mpibctl_set_would_refuse_is_not(void **state)
{
	struct mpib_config was;

	mpib_config_init(&p.cfg);
	was = p.cfg;
	unpack("quota", "requests", "1");
	unpack("quota", "fds", "1");
	unpack("share", "rules", "nonsense");
	unpack("share", "nothing", "1");
	assert_memory_equal(p.cfg.quota, was.quota, sizeof(was.quota));
	assert_string_equal(p.cfg.share_rules, was.share_rules);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(what_fits_is_kept),
	cmocka_unit_test(what_mpibctl_set_would_refuse_is_not),
	{ 0 },
};
