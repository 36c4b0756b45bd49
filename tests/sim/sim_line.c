/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send, receive and check the messages of a line. The content of a message
 * depends only on the message's number. When a request completes, the rank
 * overwrites the request's buffer. Before the rank posts the buffer again, it
 * checks that nothing else has written to the buffer.
 */
#include <stdio.h>
#include <string.h>

#include "ipc/client.h"
#include "sim_first.h"
#include "sim_rank.h"

#define POISON ((char)0xee)
#define SCRIBBLE ((char)0xa5)
#define TAG 100

static uint64_t seed_of(const struct sim_end *e, uint64_t number, unsigned k)
{
	return sim_mix(e->line->number * 1024u + e->life * 8u + k +
		       (number << 16));
}

static uint32_t length_of(const struct sim_end *e, uint64_t number, unsigned k)
{
	uint64_t z = sim_mix(seed_of(e, number, k) + 1);
	uint32_t room = e->line->plan->room;

	switch (z & 7) {
	case 0:
		return (uint32_t)(z >> 8) % (room < 129 ? room + 1 : 129);
	case 1:
	case 2:
		return (uint32_t)(z >> 8) % (room + 1);
	case 3:
		return room;
	default:
		return (uint32_t)(z >> 8) % (room < 4096 ? room + 1 : 4096);
	}
}

/* Return the maximum number of outstanding messages of this end of the line. */
static unsigned window(const struct sim_end *e)
{
	return e->sends ? e->line->plan->ahead : e->line->plan->window;
}

/* Return buffer `k` of message `number`. */
static char *buffer(const struct sim_end *e, uint64_t number, unsigned k)
{
	const struct sim_line_plan *l = e->line->plan;

	return e->mem + ((size_t)(number % window(e)) * l->group + k) * l->room;
}

static void check_scribble(const struct sim_end *e, uint64_t number)
{
	const struct sim_line_plan *l = e->line->plan;
	size_t len = (size_t)l->group * l->room;
	size_t at = sim_bytes_other(buffer(e, number, 0), len, SCRIBBLE);

	if (at < len)
		sim_fail(
			"line %u message %llu: byte %zu was written after the buffer was released",
			e->line->number, (unsigned long long)number, at);
}

/* Return the number of the message's family, which is a set of tags. */
static unsigned family_of(const struct sim_end *e, uint64_t number)
{
	return (unsigned)(sim_mix(number) % e->line->plan->families);
}

static int tag_of(unsigned family, unsigned k)
{
	return TAG + (int)(family * SIM_GROUP + k);
}

/* Return whether it is too early to post the next message. */
static bool early(const struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;
	uint64_t all = (uint64_t)l->messages * l->lives;
	uint64_t n = (uint64_t)(e->life - 1) * l->messages + e->posted;

	if (!l->span || (!e->sends && !l->rx_spans))
		return false;
	return sim_now - sim_ranks_began() <
	       l->span / all * (n < all ? n : all);
}

/* Prepare the buffers of the next receive. Call this once for each receive,
 * even if there was no room and the receive is retried. */
static void empty(struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;

	if (e->posted >= l->window)
		check_scribble(e, e->posted);
	memset(buffer(e, e->posted, 0), POISON, (size_t)l->group * l->room);
	e->emptied++;
}

static bool post_receive(struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;
	unsigned w = (unsigned)(e->posted % l->window);
	struct mpib_region *region[SIM_GROUP];
	void *data[SIM_GROUP];
	size_t size[SIM_GROUP];
	int tag[SIM_GROUP], rc;

	if (e->posted == l->messages + l->extra ||
	    e->posted - e->done == l->window || early(e))
		return false;
	if (e->emptied == e->posted)
		empty(e);
	for (unsigned k = 0; k < l->group; k++) {
		data[k] = buffer(e, e->posted, k);
		size[k] = l->room;
		tag[k] = tag_of(family_of(e, e->posted), k);
		region[k] = e->region;
	}
	rc = mpib_irecv(e->conn, (int)l->group, data, size, tag, region,
			&e->req[w]);
	if (rc < 0) {
		sim_end_fail(e, "a receive", rc);
		return true;
	}
	if (!e->req[w])
		return false;
	e->posted++;
	return true;
}

/* Print the first 32 bytes. If the bytes are the content of another message,
 * print that message's number, too. */
static void explain(const struct sim_end *e, const char *p, size_t len)
{
	const struct sim_line_plan *l = e->line->plan;

	for (size_t i = 0; i < len && i < 32; i++)
		fprintf(stderr, "%02x ", (unsigned char)p[i]);
	for (uint64_t n = 0; n < l->messages; n++) {
		for (unsigned k = 0; k < l->group; k++) {
			if (len &&
			    sim_bytes_wrong(p, len, seed_of(e, n, k)) == len)
				fprintf(stderr, "- message %llu buffer %u",
					(unsigned long long)n, k);
		}
	}
	fprintf(stderr, "\n");
}

static void check_message(const struct sim_end *e, const size_t *size)
{
	const struct sim_line_plan *l = e->line->plan;

	for (unsigned k = 0; k < l->group; k++) {
		uint32_t len = length_of(e, e->done, k);
		const char *p = buffer(e, e->done, k);
		size_t at;

		if (size[k] != len)
			sim_fail(
				"line %u message %llu buffer %u: received %zu bytes instead of %u",
				e->line->number, (unsigned long long)e->done, k,
				size[k], len);
		at = sim_bytes_wrong(p, len, seed_of(e, e->done, k));
		if (at < len)
			explain(e, p, len);
		if (at < len)
			sim_fail(
				"line %u message %llu buffer %u: byte %zu of %u is wrong",
				e->line->number, (unsigned long long)e->done, k,
				at, len);
		at = len + sim_bytes_other(p + len, l->room - len, POISON);
		if (at < l->room)
			sim_fail(
				"line %u message %llu buffer %u: the message has %u bytes, but byte %zu was written",
				e->line->number, (unsigned long long)e->done, k,
				len, at);
	}
}

/* Flush the oldest receive. Return 1 if the GPU sees the received data, 0 if
 * the flush has not completed yet, or -errno. */
static int flushed(struct sim_end *e)
{
	int done = 0, rc;

	if (!e->flushing) {
		rc = mpib_iflush(e->conn, buffer(e, e->done, 0), e->region,
				 &e->flush);
		if (rc < 0)
			return rc;
		e->flushing = true;
	}
	if (!e->flush)
		return 1;
	rc = mpib_test(e->flush, &done, NULL);
	return rc < 0 ? rc : done;
}

/* After a receive has completed, check the sender's reply segment. For each
 * unfinished send of this message, the segment must contain the number of the
 * receive. The sender needs this number if its proxy is killed. */
static void check_answers(const struct sim_end *e)
{
	const struct sim_end *from = e->line->sends;
	const struct sim_line_plan *l = e->line->plan;

	if (sim_ranks_may_fail() || !from->conn || from->life != e->life ||
	    from->done > e->done)
		return;
	for (unsigned k = 0; k < l->group; k++) {
		unsigned at = (unsigned)(e->done % l->ahead) * l->group + k;
		const struct mpib_request *r = from->req[at];
		uint64_t answer, wanted;

		if (!r || from->ended[at] || !r->completion || r->over)
			continue;
		answer = from->conn->at->reply->answers[from->conn->index]
						       [mpib_request_index(r)];
		wanted = mpib_answer(
			r->gen, false,
			sim_first_msg() +
				(uint32_t)(e->done - from->conn->base));
		if (answer != wanted)
			sim_fail(
				"line %u message %llu: the receive is complete, "
				"but the sender's reply segment contains %016llx instead of %016llx",
				e->line->number, (unsigned long long)e->done,
				(unsigned long long)answer,
				(unsigned long long)wanted);
	}
}

static bool take_receive(struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;
	unsigned w = (unsigned)(e->done % l->window);
	int done = e->arrived, rc = 0;

	if (e->done == e->posted)
		return false;
	if (!done)
		rc = mpib_test(e->req[w], &done, e->size);
	e->arrived = done;
	if (rc == 0 && done && l->rx_gpu)
		rc = done = flushed(e);
	if (rc < 0) {
		sim_end_fail(e, "a receive", rc);
		return true;
	}
	if (!done)
		return false;
	check_message(e, e->size);
	check_answers(e);
	for (unsigned k = 0; k < l->group; k++)
		e->line->bytes += e->size[k];
	memset(buffer(e, e->done, 0), SCRIBBLE, (size_t)l->group * l->room);
	e->arrived = e->flushing = false;
	e->done++;
	e->line->messages++;
	return true;
}

/* Fill the buffer of a send. Do nothing if an earlier attempt, which found no
 * room for the send, has already filled the buffer. */
static void fill(struct sim_end *e, uint64_t number, unsigned k, uint32_t len)
{
	uint8_t *of = &e->filled_of[number % e->line->plan->ahead];

	if (!(*of >> k & 1))
		sim_bytes_fill(buffer(e, number, k), len,
			       seed_of(e, number, k));
	*of |= (uint8_t)(1u << k);
}

/* Find the oldest message in the window that still lacks its send with this
 * tag. Return the message's number, or `l->messages` if there is none. */
static uint64_t lacks(const struct sim_end *e, unsigned family, unsigned k)
{
	const struct sim_line_plan *l = e->line->plan;
	uint64_t number = e->done;

	while (number < l->messages && number - e->done < l->ahead) {
		if (family_of(e, number) == family &&
		    !(e->sent_of[number % l->ahead] >> k & 1))
			return number;
		number++;
	}
	return l->messages;
}

/* Post one send. Start with a random tag, and try the tags in turn. Skip a tag
 * if the window has no unposted send with this tag, or if there is no room for
 * the send. */
static bool post_send(struct sim_end *e, struct sim_rng *r)
{
	const struct sim_line_plan *l = e->line->plan;
	unsigned tags = l->families * l->group;
	unsigned first = (unsigned)(l->eager ? sim_mix(e->done) % tags
					     : sim_draw(r, tags));

	for (unsigned i = 0; i < tags; i++) {
		unsigned k = (first + i) % tags % l->group, at;
		unsigned family = (first + i) % tags / l->group;
		uint64_t number = lacks(e, family, k);
		uint32_t len;
		int rc;

		if (number == l->messages || (number >= e->posted && early(e)))
			continue;
		at = (unsigned)(number % l->ahead);
		len = length_of(e, number, k);
		fill(e, number, k, len);
		rc = mpib_isend(e->conn, buffer(e, number, k), len,
				tag_of(family, k), e->region,
				&e->req[at * l->group + k]);
		if (rc < 0) {
			sim_end_fail(e, "a send", rc);
			return true;
		}
		/* If there is no room for this send, there may be room for the
		 * send of the next tag. */
		if (!e->req[at * l->group + k])
			continue;
		if (number >= e->posted)
			e->posted = number + 1;
		e->sent_of[at] |= (uint8_t)(1u << k);
		e->ended[at * l->group + k] = false;
		return true;
	}
	return false;
}

/* A send of the oldest message has completed. Check that the message's receive
 * has completed, too. Possibly the receiving rank has not polled the receive
 * yet. Skip the check if errors are allowed: in such plans, failover.completion
 * can be `wire`, so sends can complete early. */
static void check_received(const struct sim_end *e)
{
	const struct sim_end *to = e->line->receives;
	const struct mpib_request *r = to->req[e->done % e->line->plan->window];
	int32_t result;

	if (sim_ranks_may_fail() || !to->conn || to->life != e->life ||
	    to->done > e->done || (to->done == e->done && to->arrived))
		return;
	if (to->posted <= e->done ||
	    (!r->over && !mpib_completion_poll(r->completion, r->gen, &result)))
		sim_fail("line %u message %llu: the send is complete, but its "
			 "receive is not",
			 e->line->number, (unsigned long long)e->done);
}

static bool take_send(struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;
	unsigned w = (unsigned)(e->done % l->ahead), all = 0;
	bool moved = false;

	if (e->done == e->posted)
		return false;
	for (unsigned k = 0; k < l->group; k++) {
		unsigned at = w * l->group + k;
		size_t size;
		int done = 0, rc;

		if (e->sent_of[w] >> k & 1 && !e->ended[at]) {
			rc = mpib_test(e->req[at], &done, &size);
			if (rc < 0) {
				sim_end_fail(e, "a send", rc);
				return true;
			}
			if (done) {
				check_received(e);
				memset(buffer(e, e->done, k), SCRIBBLE,
				       length_of(e, e->done, k));
			}
			e->ended[at] = done;
			moved |= done;
		}
		all += e->ended[at] && e->sent_of[w] >> k & 1;
	}
	if (all < l->group)
		return moved;
	memset(&e->ended[w * l->group], 0, l->group);
	e->sent_of[w] = e->filled_of[w] = 0;
	e->done++;
	return true;
}

bool sim_line_take(struct sim_end *e)
{
	return e->sends ? take_send(e) : take_receive(e);
}

bool sim_line_post(struct sim_end *e, struct sim_rng *r)
{
	return e->sends ? post_send(e, r) : post_receive(e);
}
