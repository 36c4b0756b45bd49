/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A play is a list of receives with one or several tagged buffers, and their
 * sends, on a connection of an engine pair. play_run() posts them in a given
 * order and checks the result: the n-th send with a tag must arrive in the n-th
 * buffer with that tag.
 */
#ifndef MPIB_TESTS_PLAY_H
#define MPIB_TESTS_PLAY_H

#include "engine_pair.h"

/* maximum number of buffers; the send for each buffer has its own request */
#define PLAY_BUFFERS 32
#define PLAY_ROOM (64u << 10) /* bytes of a buffer */

struct play {
	struct pair *pair;
	struct pair_end *tx, *rx;
	/* offset of the first buffer in the memory of both ends */
	uint64_t base;
	unsigned receives, buffers;
	unsigned n[PLAY_BUFFERS]; /* number of buffers of each receive */
	int32_t tag[PLAY_BUFFERS];
	uint32_t len[PLAY_BUFFERS];
	/* numbers of the buffers, in the order in which their sends are
	 * posted */
	unsigned send[PLAY_BUFFERS];
	bool parts[PLAY_BUFFERS];
	uint32_t g_rx[PLAY_BUFFERS], g_tx[PLAY_BUFFERS];
};

/* Return a pseudo-random number below `n`. Every run of the program gets the
 * same sequence of numbers. */
unsigned play_draw(unsigned n);

/* Make receives from words such as "AB A". Each word is a receive, and each
 * letter of it is the tag of a buffer. Lengths are random. The caller sets
 * `tx`, `rx` and the order of the sends. */
void play_read(struct play *p, const char *words);
/* Make random receives of 1 to 8 buffers each, with random tags, and sends in
 * random order. */
void play_random(struct play *p);
/* Set the order of the sends: `tag` contains the tags of the first send, the
 * second send, and so on. */
void play_order(struct play *p, const int32_t *tag);

/* Fill the memory of the sends, and clear the memory of the receives. */
void play_prepare(const struct play *p);
void play_receive(struct play *p, unsigned which);
void play_send(struct play *p, unsigned buffer);
/* Make turns until all requests complete, and check every byte. */
void play_check(struct play *p);

/* Prepare, post, and check everything. `how` is 0 for receives first, 1 for
 * sends first, and 2 for random order. */
void play_run(struct play *p, unsigned how);

#endif
