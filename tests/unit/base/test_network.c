/* SPDX-License-Identifier: Apache-2.0 */
/* base/network.h: lists of networks, and those of this machine's addresses. */
#include "base/network.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/address.h"

static struct mpib_networks list;

static bool has(const char *text)
{
	struct in6_addr addr;

	assert_true(mpib_address_parse(text, &addr));
	return mpib_networks_have(&list, &addr);
}

static int parse(const char *text)
{
	char why[256] = "";
	int rc = mpib_networks_parse(&list, text, why, sizeof(why));

	assert_true(!rc == !why[0]);
	return rc;
}

static void an_address_is_in_one_of_the_networks_or_not(void **state)
{
	(void)state;
	assert_int_equal(parse("10.1.0.0/16,10.2.128.0/17,192.0.2.7/32,"
			       "2001:db8:4000::/34,fd00::/8"),
			 0);
	assert_int_equal(list.n, 5);
	assert_true(has("10.1.0.0") && has("10.1.255.255"));
	assert_false(has("10.0.255.255") || has("10.2.127.255"));
	assert_true(has("10.2.128.0") && has("10.2.255.255"));
	assert_true(has("192.0.2.7"));
	assert_false(has("192.0.2.6") || has("192.0.2.8"));
	assert_true(has("2001:db8:7fff::1") && has("fdff::1"));
	assert_false(has("2001:db8:8000::1") || has("fe00::1"));
	/* An IPv4 address is none of an IPv6 network, but for all of them. */
	assert_false(has("253.0.0.1"));
	assert_int_equal(parse("::/0"), 0);
	assert_true(has("10.1.2.3") && has("fe80::1"));
	assert_int_equal(parse("0.0.0.0/0"), 0);
	assert_true(has("10.1.2.3"));
	assert_false(has("2001:db8::1"));
}

static void no_list_is_no_limit(void **state)
{
	(void)state;
	assert_int_equal(parse(""), 0);
	assert_true(has("10.1.2.3") && has("::1"));
}

static void what_is_no_network_is_refused(void **state)
{
	static const char *const wrong[] = {
		"10.1.0.0",	"10.1.0.0/",	 "10.1.0.0/33",
		"10.1.0.0/-1",	"10.1.0.0/8",	 "10.1/16",
		"fd00::/129",	"fd00::1/64",	 "host/8",
		"10.1.0.0/16,", "10.1.0.0/16 ",	 ",10.1.0.0/16",
		"/8",		"10.1.0.0/16,x", "10.1.0.0/16;10.2.0.0/16",
	};
	char many[MPIB_NETWORKS_MAX * 12 + 12] = "10.0.0.0/8";

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		/* A comma at the end names nothing, and harms nothing. */
		if (strcmp(wrong[i], "10.1.0.0/16,"))
			assert_int_equal(parse(wrong[i]), -EINVAL);
	}
	for (unsigned i = 1; i < MPIB_NETWORKS_MAX; i++)
		strcat(many, ",10.0.0.0/8");
	assert_int_equal(parse(many), 0);
	strcat(many, ",10.0.0.0/8");
	assert_int_equal(parse(many), -EINVAL);
}

static void an_own_address_brings_its_interfaces_network(void **state)
{
	struct in6_addr own;

	(void)state;
	assert_int_equal(parse(""), 0);
	mpib_address_parse("127.44.1.2", &own);
	assert_int_equal(mpib_networks_add_own(&list, &own), 0);
	assert_true(has("127.0.0.1") && has("127.255.0.1"));
	assert_false(has("126.0.0.1") || has("128.0.0.1") || has("::1"));
	/* Another one of it brings nothing more. */
	mpib_address_parse("127.44.1.3", &own);
	assert_int_equal(mpib_networks_add_own(&list, &own), 0);
	assert_int_equal(list.n, 1);
	/* Of documents: no machine has it. */
	mpib_address_parse("192.0.2.1", &own);
	assert_int_equal(mpib_networks_add_own(&list, &own), -ENOENT);
	assert_int_equal(list.n, 1);
	while (list.n < MPIB_NETWORKS_MAX)
		list.n++;
	assert_int_equal(mpib_networks_add_own(&list, &own), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_in_one_of_the_networks_or_not),
		cmocka_unit_test(no_list_is_no_limit),
		cmocka_unit_test(what_is_no_network_is_refused),
		cmocka_unit_test(an_own_address_brings_its_interfaces_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
