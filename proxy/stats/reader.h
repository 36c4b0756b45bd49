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

/* A listening socket of the stats protocol. */
struct stats_door {
	struct mpib_stats *stats;
	bool admin;
	struct mpib_acceptor acceptor;
	unsigned count; /* readers connected to it */
};

struct stats_reader {
	struct mpib_stats *stats;
	struct stats_door *door;
	TAILQ_ENTRY(stats_reader) link;
	int fd;
	uid_t uid;
	struct mpib_waking waking;
	struct mpib_io watch;
	struct mpib_timer timer; /* time limit for reading the answer */
	struct mpib_timer idle; /* time limit for sending a command */
	char *in; /* input not handled yet; NULL while empty */
	size_t in_len;
	char *out; /* the answer being sent; NULL: none */
	size_t out_len, out_at;
	bool held; /* stats->held includes out_len */
	/* Command whose answer is made in parts. */
	const struct mpib_command *making;
	char *line; /* the command line; ask.argv points into it */
	struct mpib_ask ask;
	const struct mpib_command *waits; /* command awaiting a snapshot */
	struct mpib_gather_wait wait;
	bool kept; /* the reader holds a reference to the snapshot */
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
	/* Readers that are due for a step. Between slices of this queue the
	 * loop runs all other handlers, so that a thousand readers delay no
	 * peer. */
	TAILQ_HEAD(, stats_reader) queue;
	struct mpib_timer work;
	uint64_t paid; /* for the time of past slices, see mpib_rate_pay() */
	size_t held; /* bytes of answers that readers have not read yet */
	struct mpib_cluster_wait cluster; /* the wait for the peers' answers */
	uint64_t start_ns;
};

/* Make a reader for the accepted fd of user uid. Takes ownership of fd and
 * greeting. */
void stats_reader_new(struct stats_door *door, int fd, uid_t uid,
		      json_t *greeting);
void stats_reader_drop(struct stats_reader *r);
/* Answer one command: the one that waited for the current snapshot, or else the
 * reader's next line. May drop r. */
void stats_reader_step(struct stats_reader *r);

/* stats.c: queue r for stats_reader_step(). mpib_stats_next() puts it at the
 * head of the queue. */
void mpib_stats_queue(struct stats_reader *r);
void mpib_stats_next(struct stats_reader *r);
/* Request a snapshot that begins after this call. When it is complete, queue r
 * to run the command c. If c needs the cluster, queue r once the peers have
 * answered. */
void mpib_stats_wait(struct stats_reader *r, const struct mpib_command *c);
/* Release r's snapshot, or stop waiting for one. */
void mpib_stats_release(struct stats_reader *r);

#endif
