/* SPDX-License-Identifier: Apache-2.0 */
/* base/address.h: lists of networks, and the networks of this machine's
 * addresses and routes. */
#include "base/address.h"

#include <errno.h>
#include <stdio.h>

#include "test.h"

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

TEST(an_address_matches_a_list_if_a_network_of_the_list_contains_it)
{
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
	/* The only IPv6 network that contains IPv4 addresses is ::/0. */
	assert_false(has("253.0.0.1"));
	assert_int_equal(parse("::/0"), 0);
	assert_true(has("10.1.2.3") && has("fe80::1"));
	assert_int_equal(parse("0.0.0.0/0"), 0);
	assert_true(has("10.1.2.3"));
	assert_false(has("2001:db8::1"));
}

TEST(an_empty_list_contains_every_address)
{
	assert_int_equal(parse(""), 0);
	assert_true(has("10.1.2.3") && has("::1"));
}

TEST(an_own_address_adds_the_network_of_its_interface)
{
	struct in6_addr own;

	assert_int_equal(parse(""), 0);
	mpib_address_parse("127.44.1.2", &own);
	assert_int_equal(mpib_networks_add_own(&list, &own), 0);
	assert_true(has("127.0.0.1") && has("127.255.0.1"));
	assert_false(has("126.0.0.1") || has("128.0.0.1") || has("::1"));
	/* A second address in the same network adds no network. */
	mpib_address_parse("127.44.1.3", &own);
	assert_int_equal(mpib_networks_add_own(&list, &own), 0);
	assert_int_equal(list.n, 1);
	/* This address is for documentation, so no machine has it. */
	mpib_address_parse("192.0.2.1", &own);
	assert_int_equal(mpib_networks_add_own(&list, &own), -ENOENT);
	assert_int_equal(list.n, 1);
	while (list.n < MPIB_NETWORKS_MAX)
		list.n++;
	assert_int_equal(mpib_networks_add_own(&list, &own), -ENOSPC);
}

static FILE *table(const char *text)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	fputs(text, f);
	rewind(f);
	return f;
}

/* 10.1.2.0/24 is the network of the rail's interface. The interface's router
 * leads to 10.0.0.0/8 and 172.16.0.0/12. The table also has a default route, a
 * rejected network and a network of another interface. */
TEST(routes_through_the_interface_add_their_networks)
{
	FILE *f = table(
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask"
		"\t\tMTU\tWindow\tIRTT\n"
		"rail0\t00000000\t0102010A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
		"rail0\t0002010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
		"rail0\t0000000A\t0102010A\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n"
		"rail0\t000010AC\t0102010A\t0003\t0\t0\t0\t0000F0FF\t0\t0\t0\n"
		"rail0\t0000A8C0\t00000000\t0201\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
		"eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");

	assert_int_equal(parse("10.1.2.0/24"), 0);
	assert_int_equal(mpib_routes_take(&list, "rail0", f), 0);
	fclose(f);
	assert_int_equal(list.n, 3);
	assert_true(has("10.1.2.9") && has("10.77.0.1") && has("172.31.0.1"));
	assert_false(has("11.0.0.1") || has("172.32.0.1") || has("192.0.2.1") ||
		     has("192.168.0.1") || has("8.8.8.8"));
}

/* The list already has the network of the node's address, 10.0.0.0/24. The
 * routes add the networks behind the router. */
TEST(an_aggregate_is_added_beside_a_network_with_the_same_start)
{
	FILE *f = table("rail0 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
			"rail0 0000000A 0100000A 0003 0 0 0 000000FF 0 0 0\n"
			"rail0 0000010A 0100000A 0003 0 0 0 0000FFFF 0 0 0\n");

	assert_int_equal(parse("10.0.0.0/24"), 0);
	assert_int_equal(mpib_routes_take(&list, "rail0", f), 0);
	fclose(f);
	assert_true(has("10.0.0.9") && has("10.0.1.9") && has("10.255.0.1"));
	assert_false(has("11.0.0.1"));
	/* 10.1.0.0/16 is not added, because it is a part of 10.0.0.0/8. */
	assert_int_equal(list.n, 2);
}

TEST(routes_of_ipv6_add_their_networks)
{
	static const char none[] = "00000000000000000000000000000000 00 "
				   "fd010000000000000000000000000001 00000400 "
				   "00000003 00000000 ";
	char text[1024];
	FILE *f;

	snprintf(text, sizeof(text),
		 "fd010000000000000000000000000000 20 %s00000003    rail0\n"
		 "fe800000000000000000000000000000 40 %s00000001    rail0\n"
		 "00000000000000000000000000000000 00 %s00000003    rail0\n"
		 "ff000000000000000000000000000000 08 %s00000001    rail0\n"
		 "fd020000000000000000000000000000 20 %s00000001     eth0\n",
		 none, none, none, none, none);
	f = table(text);
	assert_int_equal(parse(""), 0);
	assert_int_equal(mpib_routes_take6(&list, "rail0", f), 0);
	fclose(f);
	assert_int_equal(list.n, 1);
	assert_true(has("fd01::1") && has("fd01:0:7::1"));
	assert_false(has("fd02::1") || has("fe80::1") || has("2001:db8::1"));
	f = table(text);
	assert_int_equal(parse("fd01::/64"), 0);
	assert_int_equal(mpib_routes_take6(&list, "rail0", f), 0);
	fclose(f);
	assert_int_equal(list.n, 2);
	assert_true(has("fd01:0:7::1"));
}

TEST(too_many_routes_are_an_error)
{
	char text[64 * (MPIB_NETWORKS_MAX + 1)] = "";
	FILE *f;

	for (unsigned i = 0; i <= MPIB_NETWORKS_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "rail0 0000%02X0A 0 0001 0 0 0 0000FFFF 0 0 0\n", i);
	f = table(text);
	assert_int_equal(parse(""), 0);
	assert_int_equal(mpib_routes_take(&list, "rail0", f), -ENOSPC);
	fclose(f);
	assert_int_equal(list.n, MPIB_NETWORKS_MAX);
}
