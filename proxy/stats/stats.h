/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats socket. The proxy sends a line as a greeting. Then it answers each
 * command, which is a line, with one line of JSON: {"ok": true, "data": ...} or
 * {"ok": false, "error": ..., "hint": ...}. The proxy holds the answer for a
 * slow reader for 5 s, then drops the reader. It holds at most 16 MiB of
 * answers for all slow readers together, and immediately drops a slow reader
 * beyond that. It also drops a reader that sends no command for 5 minutes. A
 * user may have a quarter of limit.readers.
 *
 * The admin socket has the same protocol, and also accepts commands that change
 * something. Its readers do not count in limit.readers, so that root can always
 * connect. Control thread only.
 */
#ifndef MPIB_PROXY_STATS_H
#define MPIB_PROXY_STATS_H

#include "metrics/gather.h"
#include "stats/command.h"

struct mpib_stats;

enum mpib_stats_door {
	MPIB_DOOR_STATS,
	MPIB_DOOR_ADMIN, /* accepts commands that change something */
	MPIB_STATS_DOORS,
};

struct mpib_stats_sockets {
	int fd[MPIB_STATS_DOORS]; /* listening; the caller owns it; -1: none */
	struct mpib_gather *gather; /* source of the snapshots */
};

/* Serve the sockets. *view describes the proxy and is copied; each answer sets
 * `snap` in the copy. *admin must outlive *stats. Returns 0 or -errno. */
int mpib_stats_open(const struct mpib_stats_sockets *sockets,
		    const struct mpib_view *view,
		    const struct mpib_admin *admin, struct mpib_stats **stats);
/* Return the acceptor of a socket; NULL if `stats` is NULL or the socket is
 * absent. */
struct mpib_acceptor *mpib_stats_acceptor(struct mpib_stats *stats,
					  enum mpib_stats_door which);

#endif
