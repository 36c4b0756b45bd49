/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/client/quota.h: on which shards the clients of users are placed. */
#include "client/quota.h"
#include "test.h"

#define SHARDS 4
#define USERS 3

static uint32_t of_user[USERS][SHARDS], of_all[SHARDS];

static int setup(void **state)
{
	memset(of_user, 0, sizeof(of_user));
	memset(of_all, 0, sizeof(of_all));
	return 0;
}

static unsigned come_by(enum mpib_place how, unsigned user, unsigned shards)
{
	unsigned i = mpib_place(how, of_user[user], of_all, shards);

	of_user[user][i]++;
	of_all[i]++;
	return i;
}

static unsigned come(unsigned user, unsigned shards)
{
	return come_by(MPIB_PLACE_ALL, user, shards);
}

setup_test(clients_of_one_user_go_to_the_emptiest_shard)
{
	for (unsigned i = 0; i < 3 * SHARDS; i++)
		assert_int_equal(come(0, SHARDS), i % SHARDS);
	of_user[0][2]--;
	of_all[2]--;
	assert_int_equal(come(0, SHARDS), 2);
}

/* If each client were placed on the emptiest shard, each user would have one of
 * the two shards for itself. */
setup_test(users_whose_clients_attach_in_turn_share_both_shards)
{
	for (unsigned i = 0; i < 8; i++) {
		come(0, 2);
		come(1, 2);
	}
	for (unsigned u = 0; u < 2; u++) {
		assert_int_equal(of_user[u][0], 4);
		assert_int_equal(of_user[u][1], 4);
	}
}

setup_test(single_clients_of_several_users_are_spread_over_the_shards)
{
	assert_int_equal(come(0, 3), 0);
	assert_int_equal(come(1, 3), 1);
	assert_int_equal(come(2, 3), 2);
}

setup_test(an_even_spread_of_each_user_comes_before_an_even_sum)
{
	of_all[0] = 100;
	of_all[1] = 10;
	of_user[0][1] = 1;
	assert_int_equal(come(0, 2), 0);
	assert_int_equal(come(0, 2), 1);
}

setup_test(a_user_with_its_own_shard_stays_on_it)
{
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(come_by(MPIB_PLACE_OWN, 0, 3), 0);
		assert_int_equal(come_by(MPIB_PLACE_OWN, 1, 3), 1);
	}
	assert_int_equal(come_by(MPIB_PLACE_OWN, 2, 3), 2);
	assert_int_equal(come_by(MPIB_PLACE_OWN, 2, 3), 2);
}

setup_test(if_users_outnumber_shards_clients_go_to_the_emptiest_shard)
{
	for (unsigned i = 0; i < 4; i++)
		come_by(MPIB_PLACE_OWN, 0, 2);
	come_by(MPIB_PLACE_OWN, 1, 2);
	assert_int_equal(come_by(MPIB_PLACE_OWN, 2, 2), 1);
	assert_int_equal(come_by(MPIB_PLACE_OWN, 2, 2), 1);
	assert_int_equal(come_by(MPIB_PLACE_OWN, 0, 2), 0);
}
