/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats socket: it sends a greeting line, then for each command line one
 * line of JSON, {"ok": true, "data": ...} or {"ok": false, "error": ...,
 * "hint": ...}. A reader that does not take its answer within 5 s is dropped.
 * Until then the proxy holds the answer; all answers held for slow readers
 * together take at most 16 MiB, beyond which a slow reader is dropped at once.
 * One that asks nothing for 5 minutes is dropped as well. A user may have a
 * quarter of limit.readers. The admin socket speaks the same protocol and takes
 * commands that change something as well; its readers do not count in that
 * limit, so that root always finds room. Control thread only.
 */
#ifndef MPIB_PROXY_STATS_H
#define MPIB_PROXY_STATS_H

#include "metrics/gather.h"
#include "stats/command.h"

struct mpib_stats;

enum mpib_stats_door {
	MPIB_DOOR_STATS,
	MPIB_DOOR_ADMIN, /* where commands may change something */
	MPIB_STATS_DOORS,
};

struct mpib_stats_sockets {
	int fd[MPIB_STATS_DOORS]; /* listening, the caller's; -1: there is none */
	struct mpib_gather *gather; /* whose snapshots readers keep */
};

/* Serve the sockets. *view describes the proxy and is copied; the copy's snap is set
 * for each answer. *admin must outlive stats. -errno. */
int mpib_stats_open(const struct mpib_stats_sockets *sockets,
		    const struct mpib_view *view,
		    const struct mpib_admin *admin, struct mpib_stats **stats);
/* The acceptor of a socket; NULL if stats is NULL, or there is no such socket. */
struct mpib_acceptor *mpib_stats_acceptor(struct mpib_stats *stats,
					  enum mpib_stats_door which);
/* Hang up on all readers and free stats. Call before mpib_gather_stop(). */
void mpib_stats_close(struct mpib_stats *stats);

#endif
