/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent: what is right for a hint that connections share. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steered.h"
#include "test.h"

static uint32_t hint(unsigned slot)
{
	return mpib_hint_read(mpib_hint_at(agent.shm, slot), 9999);
}

/* A slot that connections share has no measurements of its own. */
static void a_shared_slot_balances_as_others_to_its_peer(void **state)
{
	const unsigned shared = MPIB_AGENT_OWN, lonely = MPIB_AGENT_OWN + 1;
	const struct mpib_agent_slot *s = steered_conn(shared, "10.1.0.1");
	struct mpib_agent_slot *own;

	steered_conn(lonely, "10.2.0.1");
	policy.conf = (struct mpib_agent_conf){
		.rules = 1, .rule = { { .kind = MPIB_RULE_BALANCE } }
	};
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(shared), 512);
	own = steered_conn(0, "10.1.0.1");
	own->choice.balance = 300;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(shared), 300);
	assert_int_equal(hint(lonely), 512);
	policy.congested[MPIB_RAIL_SUP].since = 1;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(shared), 256);
	assert_int_equal(hint(lonely), 256);
	assert_non_null(strstr(s->choice.why, "SUP eased"));
	policy.congested[MPIB_RAIL_SUP].since = 0;
	policy.sick[MPIB_RAIL_SUP].since = 1;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(shared), 0);
	own->users = 0;
	mpib_agent_decide_all(&policy);
	policy.sick[MPIB_RAIL_SUP].since = 0;
	mpib_agent_decide_all(&policy);
	assert_int_equal(hint(shared), 300);
	assert_int_equal(hint(lonely), 512);
}

/* MPIB_HINT_OWN is all on SUP for a proxy in advanced mode, and one rail is no
 * reason to leave none for another connection. */
static void only_connections_alike_share_a_hint(void **state)
{
	struct mpib_agent_request q = { .type = MPIB_AGENT_REGISTER,
					.sout_dst_ip = htonl(2) };
	uint32_t slot[4];
	int a = steered_dial();

	for (unsigned i = 0; i < MPIB_AGENT_OWN; i++)
		agent.slot[i].users = 1;
	for (unsigned i = 0; i < 8; i++) {
		struct mpib_agent_response r;

		q.conn_id = 5000 + i;
		q.flags = i & 1 ? MPIB_AGENT_ADAPTIVE : 0;
		q.sup_dst_ip = i & 2 ? htonl(3) : 0;
		assert_int_equal(send(a, &q, sizeof(q), 0), sizeof(q));
		while (mpib_loop_turn(&agent.loop, 0) > 0)
			;
		assert_int_equal(recv(a, &r, sizeof(r), MSG_DONTWAIT),
				 sizeof(r));
		assert_int_equal(r.status, 0);
		assert_int_equal(agent.slot[r.hint_slot].adaptive, i & 1);
		assert_int_equal(agent.slot[r.hint_slot].alone, !(i & 2));
		if (i < 4)
			slot[i] = r.hint_slot;
		else
			assert_int_equal(r.hint_slot, slot[i - 4]);
	}
	close(a);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		a_shared_slot_balances_as_others_to_its_peer, steered_begin,
		steered_end),
	cmocka_unit_test_setup_teardown(only_connections_alike_share_a_hint,
					steered_begin, steered_end),
	{ 0 },
};
