/* SPDX-License-Identifier: Apache-2.0 */
/* base/address.h: IPv4 and IPv6 addresses of nodes, as text and in sockets. */
#include "base/address.h"

#include <arpa/inet.h>

#include "test.h"

TEST(addresses_are_printed_as_they_were_parsed)
{
	static const char *const text[] = { "10.1.2.3", "::1", "2001:db8::5",
					    "0.0.0.0" };
	struct in6_addr addr;
	char buf[MPIB_ADDRESS_MAX];

	for (unsigned i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		assert_true(mpib_address_parse(text[i], &addr));
		assert_string_equal(
			mpib_address_text(&addr, 0, buf, sizeof(buf)), text[i]);
	}
	assert_false(mpib_address_parse("10.1.2", &addr));
	assert_false(mpib_address_parse("localhost", &addr));
	assert_false(mpib_address_parse("", &addr));
}

TEST(a_port_is_separated_from_the_address)
{
	char buf[MPIB_ADDRESS_MAX];
	struct in6_addr addr;

	mpib_address_parse("2001:db8::5", &addr);
	assert_string_equal(mpib_address_text(&addr, 80, buf, sizeof(buf)),
			    "[2001:db8::5]:80");
	mpib_address_parse("10.1.2.3", &addr);
	assert_string_equal(mpib_address_text(&addr, 80, buf, sizeof(buf)),
			    "10.1.2.3:80");
	assert_int_equal(mpib_address_ip(&addr), htonl(0x0a010203));
	assert_int_equal(mpib_address_ip(&in6addr_loopback), 0);
}

TEST(sockets_have_the_family_of_their_address)
{
	static const char *const text[] = { "10.1.2.3", "2001:db8::5" };
	struct in6_addr addr, got;
	struct sockaddr_storage sa;

	for (unsigned i = 0; i < 2; i++) {
		mpib_address_parse(text[i], &addr);
		assert_int_equal(mpib_address_socket(&addr, 77, &sa),
				 i ? sizeof(struct sockaddr_in6)
				   : sizeof(struct sockaddr_in));
		assert_int_equal(sa.ss_family, i ? AF_INET6 : AF_INET);
		assert_int_equal(mpib_address_take(&sa, &got), 77);
		assert_true(mpib_address_same(&addr, &got));
	}
}
