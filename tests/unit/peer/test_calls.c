/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nodes that dial each other at the same time, and callers that do not
 * prove that they have the key.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

/* If `on` is false, stop processing the link's messages. If `on` is true,
 * process them again. */
static void hear(struct client *c, struct mpib_link *link, bool on)
{
	mpib_loop_mod(&c->node->loop, &link->watch,
		      on ? EPOLLIN | EPOLLOUT : 0);
}

/* Both nodes dial each other. The lower node is the node with the lower
 * address. The answer to its dial is delayed, so the lower node answers the
 * higher node's dial. The higher node answers, too, before the lower node
 * learns that the higher node's link is up. If the lower node used both links,
 * messages on the second link would be older than messages on the first
 * link. */
rig_test(one_of_two_simultaneous_calls_is_accepted)
{
	struct client *a, *b;
	struct mpib_link *link;
	struct mpib_peer *p, *other;
	struct mpib_pending_peer *caller;
	struct mpib_handle to[2];
	uint32_t id[2];

	rig_both_up(rig, &a, &b, 0);
	id[0] = rig_listen(a, &to[0]);
	id[1] = rig_listen(b, &to[1]);
	rig_try_call(a, 0, 0, &to[1]);
	p = TAILQ_FIRST(&a->node->broker->peers);
	hear(a, p->link, false);
	rig_advance(rig, 2 * MPIB_SEC);
	rig_try_call(b, 0, 0, &to[0]);
	other = TAILQ_FIRST(&b->node->broker->peers);
	while (!mpib_hello_expected(p)) {
		mpib_loop_turn(&b->node->loop, 0);
		mpib_loop_turn(&a->node->loop, 0);
	}
	caller = TAILQ_FIRST(&a->node->broker->pending_peers);
	hear(a, caller->link, false);
	while (other->state != MPIB_PEER_UP)
		mpib_loop_turn(&b->node->loop, 0);
	hear(a, p->link, true);
	while (p->state != MPIB_PEER_UP) {
		mpib_loop_turn(&a->node->loop, 0);
		mpib_loop_turn(&b->node->loop, 0);
	}
	caller = TAILQ_FIRST(&a->node->broker->pending_peers);
	if (caller)
		hear(a, caller->link, true);
	rig_accept(b, id[1], 1);
	rig_accept(a, id[0], 1);
	rig_settle(rig);
	assert_int_equal(p->state, MPIB_PEER_UP);
	link = p->link;
	rig_pass(rig, MPIB_SEC);
	assert_ptr_equal(p->link, link);
	for (uint32_t i = 0; i < 2; i++) {
		rig_assert_ready(a, b, i);
	}
}

/* The peer closes the connection before any message has reached this node. */
rig_test(a_call_whose_answer_is_lost_is_repeated)
{
	struct client *a, *b;
	struct mpib_handle to;
	struct mpib_peer *p;
	uint32_t id;

	rig_both_up(rig, &a, &b, 0);
	id = rig_listen(b, &to);
	rig_try_call(a, 0, 0, &to);
	p = TAILQ_FIRST(&a->node->broker->peers);
	while (p->link->connecting)
		mpib_loop_turn(&a->node->loop, 0);
	hear(a, p->link, false);
	rig_pass(rig, MPIB_GREETING_NS + MPIB_SEC);
	rig_accept(b, id, 0);
	rig_settle(rig);
	assert_int_equal(p->state, MPIB_PEER_UP);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
}

/* Before a caller has sent READY, the broker must not answer its pings.
 * Otherwise the broker would have to queue answers for a caller that does not
 * read them. */
rig_test(a_ping_before_the_proof_ends_the_call)
{
	const struct mpib_peer_msg ping = { .type = MPIB_PEER_PING };
	const struct mpib_peer_msg hello = rig_hello(1);
	char heard[MPIB_PEER_FRAME_MAX];

	rig_up(rig, 0);
	for (unsigned greets = 0; greets < 2; greets++) {
		int fd = rig_stranger(rig);
		unsigned turns = 0;
		ssize_t n;

		if (greets)
			rig_say(fd, &hello);
		rig_say(fd, &ping);
		while ((n = recv(fd, heard, sizeof(heard), MSG_DONTWAIT))) {
			assert_true(n > 0 || errno == EAGAIN);
			assert_true(turns++ < 1000);
			mpib_loop_turn(&rig->node[0].loop, 1);
		}
		assert_true(TAILQ_EMPTY(&rig->node[0].broker->pending_peers));
		close(fd);
	}
}
