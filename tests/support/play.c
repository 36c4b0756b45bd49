/* SPDX-License-Identifier: Apache-2.0 */
/* Receives and sends with tags on an engine pair, see play.h. */
#include "play.h"

#include "test.h"

unsigned play_draw(unsigned n)
{
	static unsigned seed = 1;

	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

void play_read(struct play *p, const char *words)
{
	*p = (struct play){ .receives = 1 };
	for (; *words; words++) {
		if (*words == ' ') {
			p->receives++;
			continue;
		}
		p->n[p->receives - 1]++;
		p->len[p->buffers] = play_draw(3) ? play_draw(600)
						  : play_draw(PLAY_ROOM + 1);
		p->parts[p->buffers] = play_draw(2);
		p->tag[p->buffers++] = (unsigned char)*words;
	}
}

void play_receive(struct play *p, unsigned which)
{
	unsigned first = 0;

	for (unsigned i = 0; i < which; i++)
		first += p->n[i];
	p->g_rx[which] = ++p->rx->gen;
	for (unsigned i = 0; i < p->n[which]; i++) {
		struct mpib_desc d = {
			.op = MPIB_OP_RECV,
			.req = (uint8_t)which,
			.idx = (uint8_t)i,
			.n = (uint8_t)p->n[which],
			.gen = p->g_rx[which],
			.mr = p->pair->node[1].mr,
			.tag = p->tag[first + i],
			.off = PAIR_RX + p->base + (first + i) * PLAY_ROOM,
			.len = PLAY_ROOM,
			.total = PLAY_ROOM,
		};

		pair_push(p->rx, &d);
	}
}

/* Post the send for buffer `b`. */
void play_send(struct play *p, unsigned b)
{
	uint32_t cut = p->parts[b] ? p->len[b] / 2 + 1 : p->len[b];
	struct mpib_desc d = {
		.op = MPIB_OP_SEND,
		.req = (uint8_t)b,
		.n = 1,
		.gen = p->g_tx[b] = ++p->tx->gen,
		.mr = p->pair->node[0].mr,
		.tag = p->tag[b],
		.total = p->len[b],
	};

	do {
		d.len = d.total - d.pos < cut ? d.total - d.pos : cut;
		d.off = p->base + b * PLAY_ROOM + d.pos;
		pair_push(p->tx, &d);
		d.pos += d.len;
	} while (d.pos < d.total);
}

void play_prepare(const struct play *p)
{
	memset(p->pair->node[1].mem + PAIR_RX + p->base, 0x55,
	       p->buffers * PLAY_ROOM);
	for (unsigned b = 0; b < p->buffers; b++)
		pair_fill(p->pair->node[0].mem + p->base + b * PLAY_ROOM,
			  p->len[b], play_draw(256));
}

void play_check(struct play *p)
{
	unsigned b = 0;

	for (unsigned i = 0; i < p->receives; i++) {
		pair_wait(p->pair, p->rx, (uint8_t)i, p->g_rx[i]);
		for (unsigned k = 0; k < p->n[i]; k++, b++) {
			const char *from = p->pair->node[0].mem, *to;

			from += p->base + b * PLAY_ROOM;
			to = p->pair->node[1].mem + PAIR_RX + p->base +
			     b * PLAY_ROOM;
			assert_int_equal(pair_wait(p->pair, p->tx, (uint8_t)b,
						   p->g_tx[b]),
					 p->len[b]);
			assert_int_equal(
				pair_completion(p->rx, (uint8_t)i)->size[k],
				p->len[b]);
			assert_memory_equal(from, to, p->len[b]);
			if (p->len[b] < PLAY_ROOM)
				assert_int_equal(to[p->len[b]], 0x55);
		}
	}
}

static void turn_some(struct play *p, unsigned most)
{
	for (unsigned n = play_draw(most + 1); n; n--)
		pair_turn(p->pair);
}

void play_run(struct play *p, unsigned how)
{
	unsigned r = 0, s = 0;

	play_prepare(p);
	while (r < p->receives || s < p->buffers) {
		bool receive = how == 2 ? play_draw(2) : how == 0;

		if (r < p->receives && (receive || s == p->buffers))
			play_receive(p, r++);
		else if (s < p->buffers)
			play_send(p, p->send[s++]);
		if (how == 2)
			turn_some(p, 2);
	}
	play_check(p);
}

/* The n-th send with a tag must arrive in the n-th buffer with that tag. */
void play_order(struct play *p, const int32_t *tag)
{
	bool used[PLAY_BUFFERS] = { false };

	for (unsigned s = 0; s < p->buffers; s++) {
		unsigned b = 0;

		while (used[b] || p->tag[b] != tag[s])
			b++;
		used[b] = true;
		p->send[s] = b;
	}
}

void play_random(struct play *p)
{
	unsigned tags = 1 + play_draw(12), s = 0;
	int32_t order[PLAY_BUFFERS];

	*p = (struct play){ 0 };
	while (p->receives < 8 && p->buffers < PLAY_BUFFERS - 8)
		p->buffers += p->n[p->receives++] = 1 + play_draw(8);
	for (unsigned b = 0; b < p->buffers; b++) {
		p->tag[b] = (int32_t)play_draw(tags) - 3;
		p->len[b] = play_draw(3) ? play_draw(600)
					 : play_draw(PLAY_ROOM + 1);
		p->parts[b] = play_draw(2);
	}
	memcpy(order, p->tag, sizeof(order));
	for (s = p->buffers; s > 1; s--) {
		unsigned k = play_draw(s);
		int32_t o = order[k];

		order[k] = order[s - 1];
		order[s - 1] = o;
	}
	play_order(p, order);
}
