/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic.h"

#include <string.h>

#define POISON 0xee
#define SCRIBBLE 0xa5
#define GROUP TRAFFIC_GROUPED
#define PART (40u << 10)

static uint64_t bytes_mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t word_at(uint64_t seed, uint32_t i)
{
	return seed + i * 0x100000001b3ull;
}

static void bytes_fill(char *p, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(seed, i);

		memcpy(p + i, &word, len - i < 8 ? len - i : 8);
	}
}

/* Compare `len` bytes with the bytes that `seed` determines. Return the offset
 * of the first 8 bytes that differ, or `len` if all are equal. */
static uint32_t bytes_wrong(const char *p, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(seed, i);

		if (memcmp(p + i, &word, len - i < 8 ? len - i : 8))
			return i;
	}
	return len;
}

static uint64_t seed_of(const struct conn *c, uint64_t number, unsigned buf)
{
	return bytes_mix(bytes_mix(c->number * 8 + buf) + number);
}

static uint32_t room_of(const struct conn *c)
{
	return c->kind == TRAFFIC_GROUP ? TRAFFIC_MAX / GROUP : TRAFFIC_MAX;
}

static uint32_t length_of(const struct traffic *t, const struct conn *c,
			  uint64_t number, unsigned buf)
{
	uint64_t z = bytes_mix(seed_of(c, number, buf) + 1);
	uint32_t room = room_of(c);

	if (t->fixed)
		return t->fixed < room ? t->fixed : room;
	switch (z & 7) {
	case 0:
		return (uint32_t)(z >> 8) % 129; /* small enough for one rail */
	case 1:
	case 2:
		return (uint32_t)(z >> 8) % (room + 1);
	default:
		return (uint32_t)(z >> 8) % 16384;
	}
}

static void check(const struct conn *c, uint64_t number, const char *p,
		  uint32_t len, uint64_t seed)
{
	uint32_t at = bytes_wrong(p, len, seed);

	if (at < len)
		die("connection %u message %llu: byte %u of %u is wrong",
		    c->number, (unsigned long long)number, at, len);
}

static void check_poison(const struct conn *c, uint64_t number, const char *p,
			 uint32_t len)
{
	static const uint64_t word = POISON * 0x0101010101010101ull;

	for (uint32_t i = 0; i + 8 <= len; i += 8) {
		if (memcmp(p + i, &word, 8))
			die("connection %u message %llu: something was written "
			    "at byte %u after the buffer was released",
			    c->number, (unsigned long long)number, i);
	}
}

static uint64_t offset_of(const struct conn *c, uint64_t number, bool rx)
{
	uint64_t slot = c->number * TRAFFIC_WINDOW + number % TRAFFIC_WINDOW;

	return ((uint64_t)rx * TRAFFIC_CONNS * TRAFFIC_WINDOW + slot) *
	       TRAFFIC_MAX;
}

static void push(struct end *e, const struct mpib_desc *d)
{
	if (mpib_ring_room(&e->ring, 1) < 1)
		die("a ring is full");
	mpib_ring_push(&e->ring, d);
}

static void flush(struct end *e)
{
	struct mpib_summary *s = &e->node->submit->summary;

	atomic_fetch_or(&s->word[e->index / 64], 1ull << e->index % 64);
	atomic_fetch_or(&s->top, 1ull << e->index / 64);
	node_ring(e->node);
}

static void push_parts(struct end *e, struct mpib_desc d, uint32_t cut)
{
	uint64_t off = d.off;

	d.mr = e->node->mr;
	do {
		d.len = d.total - d.pos < cut ? d.total - d.pos : cut;
		d.off = off + d.pos;
		push(e, &d);
		d.pos += d.len;
	} while (d.pos < d.total);
}

static uint32_t half_of(uint32_t total)
{
	return (total / 2 + 127) / 128 * 128;
}

static void post(struct end *e, enum traffic_kind kind, struct mpib_desc d)
{
	uint32_t cut = kind == TRAFFIC_PARTS ? PART : d.total;

	if (kind == TRAFFIC_PARTS && d.op == MPIB_OP_RECV)
		cut += 8192;
	push_parts(e, d, cut);
}

/* Post a send of a group in one of three ways: whole, in two parts, or with
 * MPIB_OP_AT_ONCE, which lets it start before the other sends of the group are
 * posted. */
static void post_grouped(struct conn *c, struct mpib_desc d)
{
	unsigned k = d.req % GROUP;
	unsigned how = bytes_mix(seed_of(c, d.gen, k) + 2) & 3;

	if (how == 3)
		d.op |= MPIB_OP_AT_ONCE;
	push_parts(&c->tx, d,
		   how != 2 || d.total < 256 ? d.total : half_of(d.total));
}

static void post_rx(struct conn *c)
{
	uint64_t number = c->rx.posted++, off = offset_of(c, number, true);
	unsigned n = c->kind == TRAFFIC_GROUP ? GROUP : 1;
	unsigned w = (unsigned)(number % TRAFFIC_WINDOW);
	struct mpib_desc d = { .op = MPIB_OP_RECV,
			       .req = (uint8_t)w,
			       .n = (uint8_t)n,
			       .gen = (uint32_t)number + 1,
			       .total = room_of(c) };

	if (c->poisoned[w])
		check_poison(c, number, c->rx.node->mem + off, TRAFFIC_MAX);
	for (unsigned i = 0; i < n; i++) {
		d.idx = (uint8_t)i;
		d.tag = (int32_t)(100 + i);
		d.pos = 0;
		d.off = off + i * room_of(c);
		post(&c->rx, c->kind, d);
	}
	flush(&c->rx);
}

static struct mpib_desc send_of(const struct traffic *t, const struct conn *c,
				uint64_t number, unsigned k)
{
	unsigned n = c->kind == TRAFFIC_GROUP ? GROUP : 1;
	unsigned w = (unsigned)(number % TRAFFIC_WINDOW);

	return (struct mpib_desc){ .op = MPIB_OP_SEND,
				   .req = (uint8_t)(w * n + k),
				   .n = 1,
				   .gen = (uint32_t)number + 1,
				   .tag = (int32_t)(100 + k),
				   .off = offset_of(c, number, false) +
					  k * room_of(c),
				   .total = length_of(t, c, number, k) };
}

/* Post send `k` of message `number`. Only a message of kind TRAFFIC_GROUP has
 * more than one send. */
static void post_send(const struct traffic *t, struct conn *c, uint64_t number,
		      unsigned k)
{
	struct mpib_desc d = send_of(t, c, number, k);

	bytes_fill(c->tx.node->mem + d.off, d.total, seed_of(c, number, k));
	if (c->kind == TRAFFIC_GROUP)
		post_grouped(c, d);
	else
		post(&c->tx, c->kind, d);
	flush(&c->tx);
}

/* Choose a random tag that still has sends to post, and post its next send. */
static bool post_drawn(const struct traffic *t, struct conn *c, uint64_t end)
{
	unsigned first =
		(unsigned)(bytes_mix(t->seed + seed_of(c, c->drawn++, 0)) %
			   GROUP);

	for (unsigned i = 0; i < GROUP; i++) {
		unsigned k = (first + i) % GROUP;

		if (c->next[k] == end)
			continue;
		post_send(t, c, c->next[k]++, k);
		if (c->next[k] > c->tx.posted)
			c->tx.posted = c->next[k];
		return true;
	}
	return false;
}

/* Post a send. Returns false if no send is left to post. If `posting` is false,
 * post only the rest of groups that have begun. */
static bool post_tx(const struct traffic *t, struct conn *c, bool posting)
{
	uint64_t end = posting ? c->tx.done + TRAFFIC_WINDOW : c->tx.posted;

	if (c->kind == TRAFFIC_GROUP)
		return post_drawn(t, c, end);
	if (c->tx.posted == end)
		return false;
	post_send(t, c, c->tx.posted++, 0);
	return true;
}

static bool ended(const struct end *e, unsigned req, uint64_t number,
		  int32_t *result)
{
	const struct mpib_completion *c =
		&e->node->reply->completion[e->index][req];

	if (!mpib_completion_poll(c, (uint32_t)number + 1, result))
		return false;
	if (*result < 0)
		die("node %u connection %u message %llu: error %d",
		    e->node->number, e->index, (unsigned long long)number,
		    *result);
	return true;
}

static bool take_tx(struct traffic *t, struct conn *c)
{
	uint64_t number = c->tx.done;
	unsigned n = c->kind == TRAFFIC_GROUP ? GROUP : 1;
	unsigned w = (unsigned)(number % TRAFFIC_WINDOW);
	int32_t result;

	if (number == c->tx.posted)
		return false;
	for (unsigned k = 0; k < n; k++) {
		if (!ended(&c->tx, w * n + k, number, &result))
			return false;
		if ((uint32_t)result != length_of(t, c, number, k))
			die("connection %u message %llu: sent %d", c->number,
			    (unsigned long long)number, result);
	}
	memset(c->tx.node->mem + offset_of(c, number, false), SCRIBBLE,
	       TRAFFIC_MAX);
	c->tx.done++;
	return true;
}

static void check_rx(const struct traffic *t, struct conn *c, uint64_t number)
{
	char *p = c->rx.node->mem + offset_of(c, number, true);
	unsigned n = c->kind == TRAFFIC_GROUP ? GROUP : 1;
	unsigned w = (unsigned)(number % TRAFFIC_WINDOW);

	for (unsigned k = 0; k < n; k++) {
		uint32_t len = length_of(t, c, number, k);
		uint32_t got =
			c->rx.node->reply->completion[c->rx.index][w].size[k];

		if (got != len)
			die("connection %u message %llu: %u bytes of %u",
			    c->number, (unsigned long long)number, got, len);
		check(c, number, p + k * room_of(c), len,
		      seed_of(c, number, k));
	}
	memset(p, POISON, TRAFFIC_MAX);
	c->poisoned[w] = true;
}

static bool take_rx(struct traffic *t, struct conn *c)
{
	uint64_t number = c->rx.done;
	int32_t result;

	if (number == c->rx.posted ||
	    !ended(&c->rx, (unsigned)(number % TRAFFIC_WINDOW), number,
		   &result))
		return false;
	check_rx(t, c, number);
	c->rx.done++;
	t->messages++;
	t->bytes += (uint32_t)result;
	if (!c->last_ns && number >= c->mark)
		c->last_ns = now_ns();
	return true;
}

static void open_end(struct end *e, struct node *node, uint32_t index)
{
	e->node = node;
	e->index = index;
	e->ring = (struct mpib_producer){
		.slot = node->submit->ring[index],
		.head = &node->reply->conn[index].head,
		.mask = MPIB_RING_SLOTS - 1,
	};
}

void traffic_open(struct traffic *t, struct nodes *n, unsigned conns)
{
	memset(t, 0, sizeof(*t));
	t->conns = conns;
	for (unsigned i = 0; i < conns; i++) {
		struct conn *c = &t->conn[i];
		unsigned from = i & 1;

		c->kind = (enum traffic_kind)(i / 2 % 3);
		c->number = i;
		nodes_connect(n, from, i);
		open_end(&c->tx, &n->node[from], i);
		open_end(&c->rx, &n->node[!from], i);
	}
}

void traffic_turn(struct traffic *t, bool posting)
{
	for (unsigned i = 0; i < t->conns; i++) {
		struct conn *c = &t->conn[i];

		while (posting && c->rx.posted - c->rx.done < TRAFFIC_WINDOW &&
		       mpib_ring_room(&c->rx.ring, 8) >= 8)
			post_rx(c);
		while (mpib_ring_room(&c->tx.ring, 8) >= 8 &&
		       post_tx(t, c, posting))
			;
		while (take_tx(t, c))
			;
		while (take_rx(t, c))
			;
	}
}

bool traffic_dry(const struct traffic *t)
{
	for (unsigned i = 0; i < t->conns; i++) {
		const struct conn *c = &t->conn[i];

		/* Receives for which no send was posted stay posted. */
		if (c->tx.done != c->tx.posted || c->rx.done < c->tx.posted)
			return false;
	}
	return true;
}

void traffic_run_for(struct traffic *t, uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	do
		traffic_turn(t, true);
	while (now_ns() < end);
}

void traffic_until_live(struct traffic *t, struct nodes *n)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (node_live(&n->node[0]) != 3 || node_live(&n->node[1]) != 3) {
		traffic_run_for(t, MS);
		if (now_ns() > end)
			die("a rail does not come back");
	}
}

void traffic_run_dry(struct traffic *t, struct nodes *n)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!traffic_dry(t)) {
		traffic_turn(t, false);
		for (unsigned i = 0; n && i < 2; i++) {
			mpib_shard_turn(&n->node[i].engine->shard[0]);
			mpib_loop_turn(&n->node[i].loop, 0);
		}
		if (now_ns() > end)
			die("posted messages do not complete");
	}
}

void traffic_mark(struct traffic *t)
{
	for (unsigned i = 0; i < t->conns; i++) {
		t->conn[i].last_ns = 0;
		t->conn[i].mark = t->conn[i].tx.posted;
	}
}

uint64_t traffic_marked(const struct traffic *t)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < t->conns; i++) {
		if (!t->conn[i].last_ns)
			return 0;
		if (t->conn[i].last_ns > last)
			last = t->conn[i].last_ns;
	}
	return last;
}

uint64_t traffic_until_marked(struct traffic *t, const char *what)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!traffic_marked(t)) {
		traffic_turn(t, true);
		if (now_ns() > end)
			die("%s: traffic stalls", what);
	}
	return traffic_marked(t);
}
