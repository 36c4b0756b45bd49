/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the stats socket: one connected reader with its unread input and
 * unsent answer, and the socket's own state. An idle reader costs a few hundred
 * bytes. Control thread only.
 */
#ifndef MPIB_PROXY_STATS_READER_H
#define MPIB_PROXY_STATS_READER_H

#include <sys/queue.h>

#include "base/users.h"
#include "cluster/cluster.h"
#include "stats/stats.h"

/* A listening socket. */
struct stats_door {
	struct mpib_stats *stats;
	bool admin;
	struct mpib_acceptor acceptor;
	unsigned count; /* readers that came in by it */
};

struct stats_reader {
	struct mpib_stats *stats;
	struct stats_door *door;
	TAILQ_ENTRY(stats_reader) link;
	int fd;
	uid_t uid;
	struct mpib_waking waking;
	struct mpib_io watch;
	struct mpib_timer timer; /* time limit for taking the answer */
	struct mpib_timer idle; /* and for asking something */
	char *in; /* input not handled yet, NULL while empty */
	size_t in_len;
	char *out; /* the answer being sent, NULL: none */
	size_t out_len, out_at;
	bool held; /* out_len counts in stats->held */
	const struct mpib_command *making; /* whose answer is not all made */
	char *line; /* the command line; ask.argv points into it */
	struct mpib_ask ask;
	const struct mpib_command *waits; /* command awaiting a snapshot */
	struct mpib_gather_wait wait;
	bool kept; /* the snapshot that was waited for */
	bool queued; /* on stats->queue */
	TAILQ_ENTRY(stats_reader) queue_link;
};

struct mpib_stats {
	struct mpib_loop *loop;
	struct mpib_gather *gather;
	struct mpib_view view;
	const struct mpib_admin *admin;
	struct stats_door door[MPIB_STATS_DOORS];
	TAILQ_HEAD(, stats_reader) readers;
	/* Readers due for a step. The loop runs everything else between slices
	 * of work on this queue, so that a thousand readers delay no peer. */
	TAILQ_HEAD(, stats_reader) queue;
	struct mpib_timer work;
	uint64_t paid; /* for slices, see base/clock.h */
	size_t held; /* bytes of answers that were not taken at once */
	struct mpib_cluster_wait cluster; /* readers wait for peers' answers */
	uint64_t start_ns;
};

/* Make a reader of the user uid of the accepted fd, which it takes over, as it does
 * the greeting. */
void stats_reader_new(struct stats_door *door, int fd, uid_t uid,
		      json_t *greeting);
void stats_reader_drop(struct stats_reader *r);
/* Answer one command: the one that waited for the snapshot, which is in view
 * now, or else the reader's next line. May drop r. */
void stats_reader_step(struct stats_reader *r);

/* stats.c: have stats_reader_step() called soon; before that of all others. */
void mpib_stats_queue(struct stats_reader *r);
void mpib_stats_next(struct stats_reader *r);
/* Have it called for c when there is a snapshot begun after this call, or, as c
 * needs, when peers have answered. */
void mpib_stats_wait(struct stats_reader *r, const struct mpib_command *c);
/* r needs no snapshot any more, neither one it has nor one it waits for. */
void mpib_stats_release(struct stats_reader *r);

#endif
