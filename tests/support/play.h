/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives of one or several buffers, and their sends, with tags, on a
 * connection of an engine pair. They are posted in a given order, and the
 * result is checked: the n-th send of a tag goes into its n-th buffer.
 */
#ifndef MPIB_TESTS_PLAY_H
#define MPIB_TESTS_PLAY_H

#include "engine_pair.h"

#define PLAY_BUFFERS 32 /* each buffer has a send, which is a request */
#define PLAY_ROOM (64u << 10) /* bytes of a buffer */

struct play {
	struct pair *pair;
	struct pair_end *tx, *rx;
	uint64_t base; /* offset of its memory, at both ends */
	unsigned receives, buffers;
	unsigned n[PLAY_BUFFERS]; /* buffers of each receive */
	int32_t tag[PLAY_BUFFERS];
	uint32_t len[PLAY_BUFFERS];
	unsigned send
		[PLAY_BUFFERS]; /* the buffers' sends, in the order posted */
	bool parts[PLAY_BUFFERS];
	uint32_t g_rx[PLAY_BUFFERS], g_tx[PLAY_BUFFERS];
};

/* Return a pseudo-random number below n. Each run has the same sequence. */
unsigned play_draw(unsigned n);

/* Read receives from words such as "AB A": a word is a receive, a letter is a
 * buffer with that tag. Lengths are random. The caller sets the order of the
 * sends, tx and rx. */
void play_read(struct play *p, const char *words);
/* Make random receives of 1 to 8 buffers each with random tags, and their sends
 * in random order. */
void play_random(struct play *p);
/* Post the sends in the order that has these tags. */
void play_order(struct play *p, const int32_t *tag);

/* Fill the memory of the sends, clear that of the receives. */
void play_prepare(const struct play *p);
void play_receive(struct play *p, unsigned which);
void play_send(struct play *p, unsigned buffer);
/* Make turns until all requests complete, and check every byte. */
void play_check(struct play *p);

/* Prepare, post and check all. how: 0 receives first, 1 sends first, 2 in
 * random order. */
void play_run(struct play *p, unsigned how);

#endif
