/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/nccl.c: what NCCL_IB_ variables are to the proxy. */
#include <errno.h>

#include "config/options.h"

#include "config_fixture.h"

/* What setting has after the variable was read, with where it comes from. */
static const char *value_after(char *variable, const char *section,
			       const char *key)
{
	const struct mpib_setting *s = mpib_config_find(section, key);
	static char value[MPIB_VALUE_MAX];
	char *env[] = { variable, NULL };
	char origin[64];

	assert_non_null(s);
	if (mpib_config_read_nccl(&cfg, env, why) < 0)
		fail_msg("%s: %s", variable, why);
	mpib_config_value(&cfg, s, value, sizeof(value));
	snprintf(origin, sizeof(origin), "environment %.*s",
		 (int)strcspn(variable, "="), variable);
	assert_string_equal(cfg.origin[s - mpib_settings], origin);
	return value;
}

static void each_has_its_setting(void **state)
{
	static const struct {
		char variable[40];
		const char *section, *key, *value;
	} all[] = {
		{ "NCCL_IB_HCA==mlx5_0:1,mlx5_3", "hca", "filter",
		  "=mlx5_0:1,mlx5_3" },
		{ "NCCL_IB_ADDR_RANGE=10.2.0.0/16", "hca", "gid_net",
		  "10.2.0.0/16" },
		{ "NCCL_IB_TIMEOUT=22", "qp", "timeout", "22" },
		{ "NCCL_IB_RETRY_CNT=5", "qp", "retry_cnt", "5" },
		{ "NCCL_IB_TC=106", "qp", "traffic_class", "106" },
		{ "NCCL_IB_TC=0x6a", "qp", "traffic_class", "106" },
		{ "NCCL_IB_SL=3", "qp", "service_level", "3" },
		{ "NCCL_IB_PKEY=1", "qp", "pkey_index", "1" },
		{ "NCCL_IB_ECE_ENABLE=0", "qp", "ece", "no" },
		{ "NCCL_IB_ECE_ENABLE=1", "qp", "ece", "yes" },
		{ "NCCL_IB_ADAPTIVE_ROUTING=0", "ar", "mode", "off" },
		{ "NCCL_IB_ADAPTIVE_ROUTING=1", "ar", "mode", "on" },
		{ "NCCL_IB_AR_THRESHOLD=4096", "ar", "threshold", "4096" },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char variable[40];

		memcpy(variable, all[i].variable, sizeof(variable));
		assert_string_equal(
			value_after(variable, all[i].section, all[i].key),
			all[i].value);
		variable[strcspn(variable, "=")] = '\0';
		assert_true(mpib_config_takes_nccl(variable));
	}
	assert_false(mpib_config_takes_nccl("NCCL_IB_GID_INDEX"));
	assert_false(mpib_config_takes_nccl("NCCL_IB_TCP"));
}

static void a_bad_value_is_named_with_its_variable(void **state)
{
	char timeout[] = "NCCL_IB_TIMEOUT=99",
	     ar[] = "NCCL_IB_ADAPTIVE_ROUTING=2";
	char *bad[2][2] = { { timeout, NULL }, { ar, NULL } };

	assert_int_equal(mpib_config_read_nccl(&cfg, bad[0], why), -EINVAL);
	assert_non_null(strstr(why, "environment NCCL_IB_TIMEOUT: qp.timeout = "
				    "\"99\" is out of range"));
	assert_int_equal(mpib_config_read_nccl(&cfg, bad[1], why), -EINVAL);
	assert_non_null(strstr(why, "environment NCCL_IB_ADAPTIVE_ROUTING: "));
}

/* Those that are empty, and NCCL's numbers for what nobody set. */
static void an_empty_one_is_as_if_it_were_not_set(void **state)
{
	char timeout[] = "NCCL_IB_TIMEOUT=", hca[] = "NCCL_IB_HCA=";
	char tc[] = "NCCL_IB_TC=-1", sl[] = "NCCL_IB_SL=-1";
	char ar[] = "NCCL_IB_ADAPTIVE_ROUTING=-2";
	char threshold[] = "NCCL_IB_AR_THRESHOLD=-2";
	char *env[] = { timeout, hca, tc, sl, ar, threshold, NULL };
	struct mpib_config was = cfg;

	if (mpib_config_read_nccl(&cfg, env, why) < 0)
		fail_msg("%s", why);
	assert_memory_equal(&cfg, &was, sizeof(cfg));
}

static void every_other_source_wins(void **state)
{
	char nccl[] = "NCCL_IB_TIMEOUT=22", tc[] = "NCCL_IB_TC=106";
	char sl[] = "NCCL_IB_SL=3", own[] = "MPIB_QP_SERVICE_LEVEL=4";
	char name[] = "mpib-proxy", flag[] = "--qp-traffic-class",
	     value[] = "7";
	char *env[] = { nccl, tc, sl, own, NULL };
	char *argv[] = { name, flag, value, NULL };
	enum mpib_action action;

	scratch_write("mpib.conf", "[hca]\nsout = soft\n[qp]\ntimeout = 18\n");
	if (mpib_options_read(&cfg, 3, argv, env, scratch, &action, why) < 0)
		fail_msg("%s", why);
	assert_int_equal(cfg.engine.timeout, 18);
	assert_int_equal(cfg.engine.traffic_class, 7);
	assert_int_equal(cfg.engine.service_level, 4);
	scratch_write("mpib.conf", "[hca]\nsout = soft\n");
	mpib_config_init(&cfg);
	assert_int_equal(
		mpib_options_read(&cfg, 1, argv, env, scratch, &action, why),
		0);
	assert_int_equal(cfg.engine.timeout, 22);
	assert_int_equal(cfg.engine.traffic_class, 106);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, scratch_remove)

const struct CMUnitTest test_list[] = {
	TEST(each_has_its_setting),
	TEST(a_bad_value_is_named_with_its_variable),
	TEST(an_empty_one_is_as_if_it_were_not_set),
	TEST(every_other_source_wins),
	{ 0 },
};
