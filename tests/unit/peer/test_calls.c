/* SPDX-License-Identifier: Apache-2.0 */
/* Two nodes that call each other at the same time. */
#include <sys/epoll.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

/* The call of the lower node connects to nothing for a while, so that the other's is
 * answered, and then it connects as well. */
static void of_two_calls_at_once_one_is_taken(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_peer *p;
	struct mpib_handle to[2];
	uint32_t id[2];

	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	mpib_broker_listen(a->node->broker, &a->client, &id[0], &to[0]);
	mpib_broker_listen(b->node->broker, &b->client, &id[1], &to[1]);
	mpib_broker_connect(a->node->broker, &a->client, 0, 0, &to[1]);
	p = TAILQ_FIRST(&a->node->broker->peers);
	mpib_loop_mod(&a->node->loop, &p->link->watch, 0);
	rig_advance(rig, 2 * MPIB_SEC);
	mpib_broker_connect(b->node->broker, &b->client, 0, 0, &to[0]);
	while (!mpib_hello_expected(p)) {
		mpib_loop_turn(&b->node->loop, 0);
		mpib_loop_turn(&a->node->loop, 0);
	}
	mpib_loop_mod(&a->node->loop, &p->link->watch, EPOLLIN | EPOLLOUT);
	while (p->link->connecting)
		mpib_loop_turn(&a->node->loop, 0);
	for (unsigned i = 0; i < 3; i++)
		mpib_loop_turn(&b->node->loop, 0);
	while (p->state == MPIB_PEER_CALLING)
		mpib_loop_turn(&a->node->loop, 0);
	rig_settle(rig);
	assert_int_equal(a->node->broker->sessions, 1);
	assert_int_equal(p->resume.id,
			 TAILQ_FIRST(&b->node->broker->peers)->resume.id);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(p->state, MPIB_PEER_UP);
	assert_int_equal(a->node->broker->sessions, 1);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(of_two_calls_at_once_one_is_taken,
					rig_setup, rig_teardown),
	{ 0 },
};
