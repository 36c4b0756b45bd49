/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session keeps for a peer that does not take it: all of it goes over the
 * next link, or the lanes end; nothing is lost while a link is up. And how little
 * a quiet link carries to know all that.
 */
#include <errno.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static struct mpib_peer *peer_of(struct rig *rig, unsigned n)
{
	return TAILQ_FIRST(&rig->node[n].broker->peers);
}

/* What node 0 has for the other end, which does not read it. */
static size_t kept(const struct mpib_peer *p)
{
	return mpib_fifo_waits(&p->resume.kept);
}

/* Closes of what the other end does not know, until so much is kept or the
 * session is over: how many. */
static unsigned tell(struct mpib_peer *p, size_t bytes)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_CONN_CLOSE,
				   .to = 0x7fffffff,
				   .error = -ECANCELED,
				   .why = "it closed the connection" };
	unsigned n = 0;

	for (; p->resume.id && kept(p) < bytes; n++) {
		assert_true(n < 1u << 20);
		mpib_peer_tell(p, &m);
	}
	return n;
}

/* Their link is broken, which node n has noticed; what it tells from now on
 * waits for the next. */
static struct mpib_peer *cut_off(struct rig *rig, unsigned n)
{
	struct mpib_peer *p = peer_of(rig, n);

	rig_pass(rig, 2 * MPIB_SEC); /* all is acknowledged */
	rig_cut(rig, n);
	for (unsigned i = 0; p->state == MPIB_PEER_UP; i++) {
		assert_true(i < 100);
		mpib_loop_turn(&rig->node[n].loop, 0);
	}
	return p;
}

/* As much as may be kept goes over the next link, whatever is put beside it. */
static void what_may_be_kept_fits_into_the_next_link(void **state)
{
	static const size_t fill[] = { 1000, 1u << 19, MPIB_KEEP_MAX / 4 * 3,
				       MPIB_KEEP_MAX - 60,
				       MPIB_KEEP_MAX - 1000 };

	for (unsigned i = 0; i < 2 * sizeof(fill) / sizeof(fill[0]); i++) {
		struct client *a, *b;
		struct mpib_peer *p;
		struct rig *rig;
		unsigned ups = 0, turns = 0;
		bool up = false, was;

		rig_setup(state);
		rig = *state;
		rig->key.set = i & 1;
		rig_both_connected(rig, &a, &b);
		p = cut_off(rig, 0);
		tell(p, fill[i / 2]);
		while (p->resume.id && (kept(p) > 0 || p->resuming)) {
			assert_true(turns++ < 1000);
			rig_advance(rig, 10 * MPIB_MSEC);
			mpib_loop_turn(&rig->node[1].loop, 0);
			mpib_loop_turn(&rig->node[0].loop, 0);
			was = up;
			up = p->state == MPIB_PEER_UP;
			ups += up && !was;
		}
		/* Either all of it has arrived, or the session ended. */
		rig_pass(rig, MPIB_SEC);
		assert_true(ups <= 1);
		if (p->resume.id && rig_state(a, 0) == MPIB_CONN_READY)
			assert_int_equal(rig_state(b, 0), MPIB_CONN_READY);
		else
			assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
		rig_connect(rig, a, 1, b, 1);
		rig_teardown(state);
	}
}

/* Up to so many bytes less than a session has in any case, sealed. */
static void tell_all_but(struct mpib_peer *p, size_t left)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_CONN_CLOSE,
				   .to = 0x7fffffff,
				   .error = -ECANCELED };
	size_t n = 0, first;

	mpib_peer_tell(p, &m);
	first = kept(p) + MPIB_SEAL_BYTES;
	while (++n * first < MPIB_FIFO_SMALL - left - 2 * first)
		mpib_peer_tell(p, &m);
	left = MPIB_FIFO_SMALL - left - n * first - first;
	assert_true(left < sizeof(m.why));
	memset(m.why, 'x', left);
	mpib_peer_tell(p, &m);
}

/* Others have filled the sum. What a session has in any case goes over the next
 * link, with what is said there first, or each would break as the one before. */
static void what_is_kept_in_any_case_fits_into_the_next_link(void **state)
{
	unsigned went_on[2] = { 0 };

	for (size_t i = 0; i < 2 * 15; i++) {
		size_t left = i / 2 * 10;
		unsigned n = i & 1;
		struct client *a, *b;
		struct mpib_peer *p;
		struct rig *rig;

		rig_setup(state);
		rig = *state;
		rig->key.set = true;
		rig_both_connected(rig, &a, &b);
		p = cut_off(rig, n);
		rig->node[n].broker->waits.most = 0;
		tell_all_but(p, left);
		assert_int_not_equal(p->resume.id, 0);
		rig_pass(rig, 5 * MPIB_SEC);
		/* Either all of it has arrived, or the session ended. */
		assert_int_equal(p->state, MPIB_PEER_UP);
		assert_int_equal(kept(p), 0);
		assert_int_equal(rig_state(a, 0), rig_state(b, 0));
		went_on[n] += rig_state(a, 0) == MPIB_CONN_READY;
		rig_teardown(state);
	}
	/* Whether this end calls or is called. */
	assert_true(went_on[0] > 0);
	assert_int_equal(went_on[0], went_on[1]);
}

/* Others have filled so much of the sum that what a session kept has room there
 * once, and not as it goes over a link, too: the lanes end with that link, for the
 * next would break as it did. */
static void what_does_not_fit_into_the_next_link_ends_the_session(void **state)
{
	for (unsigned n = 0; n < 2; n++) {
		struct mpib_broker *broker;
		struct client *a, *b;
		struct mpib_peer *p;
		struct rig *rig;
		size_t sealed;

		rig_setup(state);
		rig = *state;
		rig->key.set = true;
		rig_both_connected(rig, &a, &b);
		broker = rig->node[n].broker;
		p = cut_off(rig, n);
		tell(p, 1u << 19);
		sealed = kept(p) + (size_t)(p->resume.sent - p->resume.acked) *
					   MPIB_SEAL_BYTES;
		broker->waits.most = kept(p) + sealed / 2 * 17;
		rig_pass(rig, MPIB_SEC);
		assert_int_equal(kept(p), 0);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
		assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
		assert_non_null(strstr(mpib_broker_why(&(n ? b : a)->client, 0),
				       "more waits for it"));
		rig_connect(rig, a, 1, b, 1);
		rig_teardown(state);
	}
}

/* A large job that ends while the link is broken: a close for each connection
 * that a user has, if nobody says otherwise. */
static void what_one_user_closes_ends_nobody_elses_connections(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_peer *p;

	rig_both_connected(rig, &a, &b);
	p = cut_off(rig, 0);
	for (unsigned i = 0; i < 65536; i++)
		tell(p, kept(p) + 1);
	assert_in_range(kept(p), 65536, MPIB_KEEP_MAX / 4);
	rig_pass(rig, 5 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_READY);
	rig_connect(rig, a, 1, b, 1);
}

/* What no peer can read is not sent again and again. */
static void a_message_that_is_none_ends_the_session(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_CONN_CLOSE,
				   .to = 0x7fffffff };
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	mpib_peer_tell(peer_of(rig, 0), &m); /* without an error */
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
	rig_connect(rig, a, 1, b, 1);
}

/* Up to where the new link stands, and the called end has not heard yet what
 * the caller lacks. */
static void bring_up_resuming(struct rig *rig, struct mpib_peer *p)
{
	for (unsigned i = 0; !p->resuming; i++) {
		assert_true(i < 3000);
		mpib_loop_turn(&rig->node[1].loop, 0);
		mpib_loop_turn(&rig->node[0].loop, 0);
		if (p->state == MPIB_PEER_IDLE)
			mpib_loop_advance(&rig->node[0].loop, 100 * MPIB_MSEC);
	}
}

/* Too much to keep: the lanes end at both ends and nothing is lost in silence,
 * whether there is no link, or one whose other end has not said what it has. */
static void a_session_that_overflows_ends_with_its_lanes(void **state)
{
	for (unsigned late = 0; late < 2; late++) {
		struct client *a, *b;
		struct mpib_peer *p;
		struct rig *rig;

		rig_setup(state);
		rig = *state;
		rig_both_connected(rig, &a, &b);
		p = cut_off(rig, 0);
		tell(p, 1u << 19);
		if (late)
			bring_up_resuming(rig, p);
		tell(p, SIZE_MAX);
		assert_int_equal(p->resume.id, 0);
		/* This one would be missed. */
		mpib_broker_drop(a->node->broker, &a->client, 0);
		rig_pass(rig, 2 * MPIB_SEC);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_FREE);
		assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
		assert_non_null(strstr(mpib_broker_why(&b->client, 0), "peer"));
		rig_connect(rig, b, 1, a, 1);
		rig_connect(rig, a, 2, b, 2);
		rig_teardown(state);
	}
}

/* Less than a message a second, for there may be a thousand such links; and still
 * nothing is kept for long, and nobody is given up. */
static void quiet_peers_say_little(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_link *link;
	uint64_t said;

	rig_both_connected(rig, &a, &b);
	link = peer_of(rig, 0)->link;
	rig_pass(rig, 2 * MPIB_SEC);
	assert_int_equal(kept(peer_of(rig, 0)), 0);
	assert_int_equal(kept(peer_of(rig, 1)), 0);
	said = link->tx_bytes + link->rx_bytes;
	rig_pass(rig, 600 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	said = link->tx_bytes + link->rx_bytes - said;
	assert_true(said > 0);
	/* A PING of either end and its PONG, 13 bytes each, for an eighth of a
	 * minute. */
	assert_true(said <= 600 / 7 * 4 * 13);
}

const struct CMUnitTest test_list[] = {
	rig_test(what_one_user_closes_ends_nobody_elses_connections),
	cmocka_unit_test(what_may_be_kept_fits_into_the_next_link),
	cmocka_unit_test(what_is_kept_in_any_case_fits_into_the_next_link),
	cmocka_unit_test(what_does_not_fit_into_the_next_link_ends_the_session),
	rig_test(a_message_that_is_none_ends_the_session),
	cmocka_unit_test(a_session_that_overflows_ends_with_its_lanes),
	rig_test(quiet_peers_say_little),
	{ 0 },
};
