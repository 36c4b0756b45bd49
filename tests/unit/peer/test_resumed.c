/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between two nodes continue after their lane was lost or their
 * proxy has ended. The clients request their ends again at another index. A test
 * that kills a proxy attaches the proxy's clients to the next proxy.
 */
#include <errno.h>
#include <string.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

#define GRACE_S 30u

struct resumed {
	struct rig *rig;
	struct client *from, *to; /* clients of node 0 and node 1 */
	struct mpib_handle handle;
	uint32_t listener;
	uint64_t key;
	/* The state of both ends, as their ranks have read it. */
	struct mpib_reply_end sender, receiver;
};

static void learn(struct resumed *r, uint32_t from_index, uint32_t to_index)
{
	r->sender = r->from->client.reply->end[from_index];
	r->receiver = r->to->client.reply->end[to_index];
}

static void connected(struct resumed *r, struct rig *rig)
{
	r->rig = rig;
	rig->grace_s = GRACE_S;
	rig->port[0] = 17001;
	rig->port[1] = 17002;
	rig_both_up(rig, &r->from, &r->to, 0);
	/* There are no clients of an earlier proxy. */
	mpib_broker_grown(r->from->node->broker);
	mpib_broker_grown(r->to->node->broker);
	r->listener = rig_listen(r->to, &r->handle);
	rig_call(r->from, 0, 0, &r->handle);
	rig_accept(r->to, r->listener, 0);
	rig_settle(rig);
	rig_assert_ready(r->from, r->to, 0);
	learn(r, 0, 0);
	r->key = r->sender.key;
}

static int ask_sender(struct resumed *r, uint32_t index, uint64_t number)
{
	const struct mpib_ctl_connect ask = { .conn = index,
					      .key = r->key,
					      .number = number,
					      .peer_number =
						      r->sender.peer_number,
					      .handle = r->handle };

	return mpib_broker_connect(r->from->node->broker, &r->from->client,
				   &ask, true);
}

static int ask_receiver(struct resumed *r, uint32_t index, uint64_t number,
			uint64_t base)
{
	struct mpib_ctl_connect ask = { .conn = index,
					.key = r->key,
					.number = number,
					.base = base,
					.handle = {
						.magic = MPIB_HANDLE_MAGIC,
						.port = r->receiver.port } };

	memcpy(ask.handle.addr6, r->receiver.addr, sizeof(ask.handle.addr6));
	memcpy(ask.handle.second, r->receiver.second,
	       sizeof(ask.handle.second));
	return mpib_broker_connect(r->to->node->broker, &r->to->client, &ask,
				   false);
}

static void assert_ends(const struct resumed *r, uint32_t from, uint32_t to,
			uint64_t a, uint64_t b, uint64_t base)
{
	const struct mpib_reply_end *sends = &r->from->client.reply->end[from];
	const struct mpib_reply_end *gets = &r->to->client.reply->end[to];

	assert_int_equal(rig_state(r->from, from), MPIB_CONN_READY);
	assert_int_equal(rig_state(r->to, to), MPIB_CONN_READY);
	assert_int_equal(sends->key, r->key);
	assert_int_equal(gets->key, r->key);
	assert_int_equal(sends->number, a);
	assert_int_equal(gets->number, b);
	assert_int_equal(sends->peer_number, b);
	assert_int_equal(gets->peer_number, a);
	assert_int_equal(sends->base, base);
	assert_int_equal(gets->base, base);
}

/* A handle that peers got before the listener's proxy ended must stay valid. */
rig_test(a_listener_keeps_its_nonce)
{
	struct mpib_handle handle;
	struct resumed r;
	uint32_t id;

	connected(&r, rig);
	rig_kill(r.rig, 1);
	rig_call(r.from, 1, 0, &r.handle);
	rig_up(r.rig, 1);
	r.to = rig_client(r.rig, 1, 1000, 0);
	rig_pass(r.rig, 2 * MPIB_SEC);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_PENDING);
	assert_int_equal(mpib_broker_listen(r.to->node->broker, &r.to->client,
					    r.handle.nonce, &id, &handle),
			 0);
	assert_memory_equal(&handle, &r.handle, sizeof(handle));
	rig_accept(r.to, id, 1);
	rig_pass(r.rig, MPIB_SEC);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_READY);
	assert_int_equal(mpib_broker_listen(r.to->node->broker, &r.to->client,
					    r.handle.nonce, &id, &handle),
			 -EEXIST);
}

/* Other users may know the nonce of a listener. */
rig_test(another_users_listener_with_the_same_nonce_gets_no_connect)
{
	struct mpib_handle handle;
	struct client *other;
	struct resumed r;
	uint32_t id;

	connected(&r, rig);
	rig_kill(r.rig, 1);
	rig_up(r.rig, 1);
	other = rig_client(r.rig, 1, 1001, 0);
	assert_int_equal(mpib_broker_listen(other->node->broker, &other->client,
					    r.handle.nonce, &id, &handle),
			 0);
	rig_accept(other, id, 0);
	rig_call(r.from, 1, 0, &r.handle);
	rig_pass(r.rig, 2 * MPIB_SEC);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_PENDING);
	r.to = rig_client(r.rig, 1, 1000, 0);
	assert_int_equal(mpib_broker_listen(r.to->node->broker, &r.to->client,
					    r.handle.nonce, &id, &handle),
			 0);
	rig_accept(r.to, id, 0);
	rig_pass(r.rig, MPIB_SEC);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_READY);
	assert_int_equal(rig_state(r.to, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(other, 0), MPIB_CONN_PENDING);
}

/* Keys belong to users: with another user, the same key names another
 * connection. */
rig_test(another_user_cannot_resume_a_connection)
{
	struct client *other;
	struct resumed r, theirs;

	connected(&r, rig);
	other = rig_client(r.rig, 1, 1001, 0);
	peer_lane_lose(r.from->node->broker->lanes, "a test");
	rig_settle(r.rig);
	theirs = r;
	theirs.to = other;
	assert_int_equal(ask_receiver(&theirs, 0, 2, UINT64_MAX), 0);
	assert_int_equal(ask_sender(&r, 1, 2), 0);
	rig_pass(r.rig, MPIB_SEC);
	assert_int_equal(rig_state(other, 0), MPIB_CONN_FAILED);
	assert_int_equal(ask_receiver(&r, 1, 2, 5), 0);
	rig_pass(r.rig, MPIB_SEC);
	assert_ends(&r, 1, 1, 2, 2, 5);
}

/* The sending end asks first and is refused, so its proxy pauses. */
rig_test(an_end_that_resumes_ends_the_pause_of_the_other_end)
{
	struct resumed r;

	connected(&r, rig);
	rig_kill(r.rig, 1);
	rig_pass(r.rig, MPIB_SEC / 10);
	rig_up(r.rig, 1);
	r.to = rig_client(r.rig, 1, 1000, 0);
	assert_int_equal(ask_sender(&r, 1, 2), 0);
	rig_pass(r.rig, 2 * MPIB_SEC);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_PENDING);
	assert_int_equal(ask_receiver(&r, 1, 2, 5), 0);
	rig_settle(r.rig);
	assert_ends(&r, 1, 1, 2, 2, 5);
}

rig_test(a_client_that_resumes_too_late_gets_an_error)
{
	struct resumed r;

	connected(&r, rig);
	peer_lane_lose(r.from->node->broker->lanes, "a test");
	rig_pass(r.rig, MPIB_SEC);
	assert_int_equal(ask_sender(&r, 1, 2), 0);
	rig_pass(r.rig, (GRACE_S + 1) * MPIB_SEC);
	assert_int_equal(rig_state(r.to, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(r.to, 0), -ETIMEDOUT);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_FAILED);
	assert_int_equal(rig_state(r.from, 0), MPIB_CONN_FAILED);
	assert_non_null(strstr(rig_why(r.to, 0), "not resumed in time"));
}

/* Lose the lane. If `old` is the last number, ask for ends `old` + 1. */
static void lose_and_ask(struct resumed *r, uint64_t old)
{
	peer_lane_lose(r->from->node->broker->lanes, "no rail works");
	rig_settle(r->rig);
	assert_int_equal(ask_sender(r, (uint32_t)old, old + 1), 0);
	assert_int_equal(ask_receiver(r, (uint32_t)old, old + 1, 5), 0);
	rig_settle(r->rig);
	learn(r, (uint32_t)old, (uint32_t)old);
}

rig_test(new_lanes_that_move_nothing_share_one_grace_period)
{
	struct resumed r;

	connected(&r, rig);
	fake_unmoved = true;
	lose_and_ask(&r, 1);
	for (uint64_t n = 2; n < 5; n++) {
		assert_ends(&r, (uint32_t)n - 1, (uint32_t)n - 1, n, n, 5);
		rig_pass(r.rig, 8 * MPIB_SEC);
		lose_and_ask(&r, n);
	}
	rig_pass(r.rig, 8 * MPIB_SEC);
	peer_lane_lose(r.from->node->broker->lanes, "no rail works");
	rig_pass(r.rig, MPIB_SEC);
	assert_int_equal(rig_state(r.from, 4), MPIB_CONN_FAILED);
	assert_int_equal(rig_state(r.to, 4), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(r.from, 4), -ETIMEDOUT);
	assert_non_null(strstr(rig_why(r.to, 4), "no rail works"));
}

rig_test(data_that_moves_and_a_new_proxy_of_the_peer_end_the_grace_period)
{
	struct resumed r;

	connected(&r, rig);
	for (uint64_t n = 1; n < 8; n++) {
		fake_unmoved = n != 3;
		r.from->node->broker->lanes->peer_lost = n == 6;
		r.to->node->broker->lanes->peer_lost = n == 6;
		lose_and_ask(&r, n);
		assert_ends(&r, (uint32_t)n, (uint32_t)n, n + 1, n + 1, 5);
		rig_pass(r.rig, 12 * MPIB_SEC);
	}
}

static void close_end(struct client *c, uint32_t index)
{
	assert_int_equal(mpib_broker_drop(c->node->broker, &c->client, index),
			 0);
}

/* Until the rank uses the new end, its process has both ends. A job at its
 * quota must still be able to resume. */
rig_test(a_quota_counts_a_lost_end_and_its_next_end_once)
{
	struct resumed r;

	connected(&r, rig);
	assert_int_equal(r.from->client.quota_conns, 1);
	peer_lane_lose(r.from->node->broker->lanes, "a test");
	rig_settle(r.rig);
	assert_int_equal(r.from->client.quota_conns, 0);
	assert_int_equal(ask_sender(&r, 1, 2), 0);
	assert_int_equal(ask_receiver(&r, 1, 2, 5), 0);
	rig_pass(r.rig, MPIB_SEC);
	assert_ends(&r, 1, 1, 2, 2, 5);
	assert_int_equal(r.from->client.quota_conns, 1);
	close_end(r.from, 0);
	rig_settle(r.rig);
	assert_int_equal(rig_state(r.from, 0), MPIB_CONN_FREE);
	assert_int_equal(r.from->client.quota_conns, 1);
	close_end(r.from, 1);
	rig_pass(r.rig, MPIB_SEC);
	assert_int_equal(rig_state(r.from, 1), MPIB_CONN_FREE);
	assert_int_equal(r.from->client.quota_conns, 0);
}

/* If one end is closed, the other end fails at once and cannot be resumed. */
rig_test(a_connection_that_was_closed_is_not_resumed)
{
	struct resumed r;

	connected(&r, rig);
	mpib_broker_drop(r.from->node->broker, &r.from->client, 0);
	rig_settle(r.rig);
	assert_int_equal(rig_state(r.to, 0), MPIB_CONN_FAILED);
	assert_int_equal(ask_receiver(&r, 1, 2, 0), -EEXIST);
}

static void assert_closed_there(const struct client *c, uint32_t index)
{
	assert_int_equal(rig_state(c, index), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(c, index), -ECONNRESET);
	assert_non_null(strstr(rig_why(c, index), "closed"));
}

/* Lose the lane of a connection and close one end, before or after the client
 * of the other end requests the connection again. The other end must learn of
 * the close. */
static void close_lost(void **state, bool first, struct resumed *r,
		       bool sender_lives)
{
	struct client *live, *closed;

	rig_setup(state);
	connected(r, *state);
	live = sender_lives ? r->from : r->to;
	closed = sender_lives ? r->to : r->from;
	peer_lane_lose(r->from->node->broker->lanes, "a test");
	rig_settle(r->rig);
	if (first)
		close_end(closed, 0);
	assert_int_equal(sender_lives ? ask_sender(r, 1, 2)
				      : ask_receiver(r, 1, 2, 0),
			 0);
	rig_pass(r->rig, MPIB_SEC / 5);
	if (!first)
		close_end(closed, 0);
	rig_pass(r->rig, 2 * MPIB_SEC);
	assert_closed_there(live, 1);
	rig_teardown(state);
}

TEST(an_end_that_lost_its_lane_learns_at_once_of_the_other_ends_close)
{
	struct resumed r;

	for (unsigned i = 0; i < 4; i++)
		close_lost(state, i & 2, &r, i & 1);
}

/* While one proxy is down, the client of the other proxy closes its end. */
TEST(a_resuming_client_learns_that_the_other_end_was_closed)
{
	struct resumed r;

	for (unsigned victim = 0; victim < 2; victim++) {
		rig_setup(state);
		connected(&r, *state);
		rig_kill(r.rig, victim);
		rig_pass(r.rig, MPIB_SEC);
		close_end(victim ? r.from : r.to, 0);
		rig_pass(r.rig, MPIB_SEC);
		rig_up(r.rig, victim);
		if (victim)
			r.to = rig_client(r.rig, 1, 1000, 0);
		else
			r.from = rig_client(r.rig, 0, 1000, 0);
		rig_pass(r.rig, 3 * MPIB_SEC);
		if (victim)
			assert_int_equal(ask_receiver(&r, 1, 2, 3), 0);
		else
			assert_int_equal(ask_sender(&r, 1, 2), 0);
		rig_pass(r.rig, 3 * MPIB_SEC);
		assert_closed_there(victim ? r.to : r.from, 1);
		rig_teardown(state);
	}
}

/* A rank ends while its proxy is down. The other end must fail as soon as the
 * next proxy has heard from all ranks that still run. */
TEST(an_end_learns_that_the_other_process_did_not_return)
{
	struct resumed r;

	for (unsigned victim = 0; victim < 2; victim++) {
		rig_setup(state);
		connected(&r, *state);
		rig_kill(r.rig, victim);
		rig_pass(r.rig, MPIB_SEC);
		if (victim)
			assert_int_equal(ask_sender(&r, 1, 2), 0);
		else
			assert_int_equal(ask_receiver(&r, 1, 2, 3), 0);
		rig_up(r.rig, victim);
		rig_pass(r.rig, 3 * MPIB_SEC);
		assert_int_equal(rig_state(victim ? r.from : r.to, 1),
				 MPIB_CONN_PENDING);
		mpib_broker_grown(r.rig->node[victim].broker);
		rig_pass(r.rig, 2 * MPIB_SEC);
		assert_int_equal(rig_state(victim ? r.from : r.to, 1),
				 MPIB_CONN_FAILED);
		rig_teardown(state);
	}
}

/* The accepts of a listener are for new connections only. A resumed connection
 * must not use up an accept. */
rig_test(a_resumed_connection_does_not_use_up_an_accept)
{
	struct resumed r;

	connected(&r, rig);
	rig_kill(r.rig, 0);
	rig_pass(r.rig, (GRACE_S + 1) * MPIB_SEC);
	close_end(r.to, 0);
	rig_accept(r.to, r.listener, 1);
	rig_up(r.rig, 0);
	r.from = rig_client(r.rig, 0, 1000, 0);
	assert_int_equal(ask_sender(&r, 1, 2), 0);
	rig_pass(r.rig, MPIB_SEC);
	assert_closed_there(r.from, 1);
	assert_int_equal(rig_state(r.to, 1), MPIB_CONN_PENDING);
}

rig_test(a_connection_whose_peer_broke_the_protocol_ends)
{
	struct resumed r;
	struct node *n;

	connected(&r, rig);
	n = r.to->node;
	mpib_broker_events.lane_broken(&n->broker, n->broker->lanes->lane,
				       -EPROTO, "of a test");
	rig_settle(r.rig);
	assert_int_equal(rig_state(r.to, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(r.to, 0), -EPROTO);
	assert_int_equal(rig_state(r.from, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(r.from, 0), -ECONNRESET);
}

rig_test(another_client_cannot_resume_the_connection)
{
	struct client *other;
	struct resumed r;

	connected(&r, rig);
	/* the connection is not lost */
	assert_int_equal(ask_sender(&r, 1, 2), -EEXIST);
	peer_lane_lose(r.from->node->broker->lanes, "a test");
	rig_settle(r.rig);
	other = rig_client(r.rig, 0, 1000, 0);
	r.from = other;
	assert_int_equal(ask_sender(&r, 1, 2), -EEXIST);
	r.from = &r.rig->node[0].client[0];
	/* the connection has already had this number */
	assert_int_equal(ask_sender(&r, 1, 1), -EEXIST);
	assert_int_equal(ask_receiver(&r, 1, 1, 0), -EINVAL);
	assert_int_equal(ask_sender(&r, 1, 2), 0);
	assert_int_equal(ask_receiver(&r, 1, 2, 0), 0);
	rig_pass(r.rig, MPIB_SEC);
	assert_ends(&r, 1, 1, 2, 2, 0);
}
