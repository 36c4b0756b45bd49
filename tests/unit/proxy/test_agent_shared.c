/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent: what is right for a hint that connections share. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steered.h"
#include "test.h"

/* MPIB_HINT_OWN is all on SUP for a proxy in advanced mode, and one rail is no
 * reason to leave none for another connection. */
TEST_OF(only_connections_alike_share_a_hint, steered_begin, steered_end)
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
