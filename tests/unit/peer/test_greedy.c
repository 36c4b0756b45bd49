/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that cause answers and do not read them. The number of bytes that are
 * queued for a peer, and for all peers together, is limited. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

#define PEERS 8

static const struct mpib_peer_msg end = { .type = MPIB_PEER_CONN_CLOSE,
					  .to = 0x7fffffff,
					  .error = -ECANCELED,
					  .why = "its process has ended" };

/* Become a peer of node 0 at a port that no node dials. */
static int become_a_peer(struct rig *rig, uint16_t port)
{
	const struct mpib_peer_msg hello = rig_hello(port);
	const struct mpib_peer_msg ready = { .type = MPIB_PEER_READY };
	int fd = rig_stranger(rig), least = 4096;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
	rig_say(fd, &hello);
	rig_say(fd, &ready);
	rig_settle(rig);
	return fd;
}

/* Repeat a message until `most` bytes are sent or node 0 stops reading. Return
 * the largest number of bytes that were queued for all peers at any time. */
static size_t flood(struct rig *rig, int fd, const struct mpib_peer_msg *m,
		    size_t most)
{
	static uint8_t bytes[64 * MPIB_PEER_FRAME_MAX];
	const size_t *waits = &rig->node[0].broker->waits.waits;
	size_t len = 0, at = 0, all = 0, peak = 0;
	int ran = 1;

	while (len + MPIB_PEER_FRAME_MAX < sizeof(bytes))
		len += mpib_peer_encode(m, bytes + len);
	while (all < most || ran > 0) {
		ssize_t n = all < most ? send(fd, bytes + at, len - at,
					      MSG_NOSIGNAL | MSG_DONTWAIT)
				       : 0;

		if (n < 0 && errno != EAGAIN)
			break;
		if (n > 0) {
			at = (at + (size_t)n) % len;
			all += (size_t)n;
		}
		ran = mpib_loop_turn(&rig->node[0].loop, 0);
		peak = *waits > peak ? *waits : peak;
	}
	return peak;
}

static size_t waits_for(const struct mpib_peer *p)
{
	return p->link ? mpib_fifo_waits(&p->link->out) : 0;
}

/* Return the number of links of node 0 that are up. */
static unsigned linked(const struct rig *rig)
{
	const struct mpib_peer *p;
	unsigned n = 0;

	TAILQ_FOREACH(p, &rig->node[0].broker->peers, entry)
	n += p->state == MPIB_PEER_UP;
	return n;
}

rig_test(unread_answers_to_pings_are_limited)
{
	const struct mpib_peer_msg ping = { .type = MPIB_PEER_PING };
	struct mpib_peer *p;
	int fd;

	rig_up(rig, 0);
	fd = become_a_peer(rig, 1);
	p = TAILQ_FIRST(&rig->node[0].broker->peers);
	assert_int_equal(p->state, MPIB_PEER_UP);
	flood(rig, fd, &ping, 12u << 20);
	assert_int_equal(p->state, MPIB_PEER_UP);
	assert_in_range(waits_for(p), 1, 128u << 10);
	close(fd);
}

/* Queue closes of unknown connections for a peer that reads nothing, until the
 * queue is full. */
static void hoard(struct mpib_peer *p)
{
	while (waits_for(p) + MPIB_PEER_FRAME_MAX <= 1u << 20 &&
	       mpib_fifo_room(&p->link->out, MPIB_PEER_FRAME_MAX))
		mpib_peer_tell(p, &end);
	assert_null(p->link->overflow);
}

/* The limit for all peers together is lower than the sum of the limits of the
 * peers. */
rig_test(all_peers_together_have_one_limit_for_queued_bytes)
{
	const struct mpib_peer_msg open = { .type = MPIB_PEER_CONN_OPEN,
					    .name = { 1, 1000, true },
					    .from = 1 };
	struct client *a, *b;
	size_t most = 4u << 20;
	int fd[PEERS];

	rig_both_connected(rig, &a, &b);
	rig->node[0].broker->waits.most = most;
	for (unsigned i = 0; i < PEERS; i++) {
		fd[i] = become_a_peer(rig, (uint16_t)(1 + i));
		assert_in_range(flood(rig, fd[i], &open, 8u << 20), 256u << 10,
				most + 2 * PEERS * MPIB_FIFO_SMALL);
	}
	assert_int_equal(linked(rig), 1);
	/* A peer that reads its messages is not affected. */
	rig_connect(rig, a, 1, b, 1);
	rig_connect(rig, b, 2, a, 2);
	for (unsigned i = 0; i < PEERS; i++)
		close(fd[i]);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
}

/* A peer that reads gets more queue space than the others, for example for all
 * closes of a large job. */
rig_test(a_peer_that_reads_has_queue_space_beside_peers_that_do_not)
{
	struct mpib_peer *p, *honest;
	struct client *a, *b;
	int fd[PEERS];

	rig_both_connected(rig, &a, &b);
	honest = TAILQ_FIRST(&rig->node[0].broker->peers);
	for (unsigned i = 0; i < PEERS; i++)
		fd[i] = become_a_peer(rig, (uint16_t)(1 + i));
	rig->node[0].broker->waits.most = (size_t)PEERS << 20;
	for (p = TAILQ_NEXT(honest, entry); p; p = TAILQ_NEXT(p, entry))
		hoard(p);
	while (waits_for(honest) < 4 * MPIB_FIFO_SMALL) {
		mpib_peer_tell(honest, &end);
		assert_null(honest->link->overflow);
	}
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(waits_for(honest), 0);
	rig_assert_ready(a, b, 0);
	for (unsigned i = 0; i < PEERS; i++)
		close(fd[i]);
}
