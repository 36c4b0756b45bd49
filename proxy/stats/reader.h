/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the stats socket: one connected reader, what it has
 * said and what it has not taken yet. An idle one costs a few hundred bytes.
 */
#ifndef MPIB_PROXY_STATS_READER_H
#define MPIB_PROXY_STATS_READER_H

#include <sys/queue.h>

#include "stats/stats.h"

struct stats_reader {
	struct mpib_stats *stats;
	TAILQ_ENTRY(stats_reader) link;
	int fd;
	uid_t uid;
	struct mpib_io watch;
	struct mpib_timer timer; /* of an answer not taken */
	char *in; /* what it said, NULL while that is nothing */
	size_t in_len;
	char *out; /* the answer, NULL: none */
	size_t out_len, out_at;
	bool held; /* out counts among what is held for slow readers */
	char *line; /* that ask points into */
	struct mpib_ask ask;
	const struct mpib_command *waits; /* for a snapshot, or NULL */
	uint64_t ticket; /* of the first snapshot young enough */
	bool queued; /* for its next step */
	TAILQ_ENTRY(stats_reader) queue_link;
	const struct mpib_command *stream; /* under way, or NULL */
	struct mpib_timer tick;
	uint64_t period;
};

struct mpib_stats {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_view view;
	const struct mpib_admin *admin;
	int fd;
	struct mpib_io watch;
	struct mpib_timer pause; /* after accept() found no descriptor */
	TAILQ_HEAD(, stats_reader) readers;
	/* Who has something to be answered. Between the steps of the queue the
	 * loop does everything else, so that a thousand readers delay no peer. */
	TAILQ_HEAD(, stats_reader) queue;
	struct mpib_timer work;
	unsigned count;
	size_t held; /* bytes of answers that were not taken at once */
	uint64_t asked; /* snapshots begun */
	bool taking; /* one is on its way */
	struct mpib_snapshot *snap; /* being answered from, or NULL */
	uint64_t start_ns;
};

/* Serve fd, which is the reader's from now on. */
void stats_reader_new(struct mpib_stats *st, int fd, const json_t *greeting);
void stats_reader_drop(struct stats_reader *r);
/* For a timer: it did not take its answer, or there is none for it. */
void stats_reader_expire(void *arg);
/* One answer: to what it waits for, now that view has the snapshot, or to the
 * next line it said. May drop r. */
void stats_reader_step(struct stats_reader *r);

/* stats.c: have stats_reader_step() called soon. */
void mpib_stats_queue(struct stats_reader *r);
/* The same, when there is a snapshot that is younger than now. */
void mpib_stats_wait(struct stats_reader *r, const struct mpib_command *c);
double mpib_stats_uptime(const struct mpib_stats *st);

#endif
