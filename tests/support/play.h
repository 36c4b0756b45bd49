/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives of one buffer or several and the sends for them, with tags, on a
 * connection of an engine pair: posted in a given order, and checked by what
 * belongs where: the n-th send of a tag into the n-th buffer of that tag.
 */
#ifndef MPIB_TESTS_PLAY_H
#define MPIB_TESTS_PLAY_H

#include "engine_pair.h"

#define PLAY_BUFFERS 32 /* at most: each has a send, which is a request */
#define PLAY_ROOM (64u << 10) /* bytes of a buffer */

struct play {
	struct pair *pair;
	struct pair_end *tx, *rx;
	uint64_t base; /* of its memory, at either end */
	unsigned receives, buffers;
	unsigned n[PLAY_BUFFERS]; /* buffers by receive */
	int32_t tag[PLAY_BUFFERS];
	uint32_t len[PLAY_BUFFERS];
	unsigned send
		[PLAY_BUFFERS]; /* the buffers' sends, in the order posted */
	bool parts[PLAY_BUFFERS];
	uint32_t g_rx[PLAY_BUFFERS], g_tx[PLAY_BUFFERS];
};

/* By chance, below n. The same each time. */
unsigned play_draw(unsigned n);

/* One receive a word, one buffer and its tag a letter: "AB A". Lengths by
 * chance; the order of the sends is the caller's, as tx and rx are. */
void play_read(struct play *p, const char *words);
/* Receives of 1 to 8, in all as many as there are requests, of few tags or
 * many, with the sends in any order. */
void play_random(struct play *p);
/* Sends come in this order of tags. */
void play_order(struct play *p, const int32_t *tag);

/* Fill and clear the memory. */
void play_prepare(const struct play *p);
void play_receive(struct play *p, unsigned which);
void play_send(struct play *p, unsigned buffer);
/* Turn until all has ended; every byte is where it belongs. */
void play_check(struct play *p);

/* All of it: 0 receives first, 1 sends first, 2 mixed by chance. */
void play_run(struct play *p, unsigned how);

#endif
