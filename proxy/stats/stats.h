/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats socket: a greeting line, then for each line with a command one
 * line of JSON, {"ok": true, "data": ...} or {"ok": false, "error": ...,
 * "hint": ...}. A reader that does not take its answer within 5 s is dropped;
 * until then it costs one answer's memory, and all of them together no more
 * than 16 MiB: beyond that a slow one is dropped at once. Control thread only.
 */
#ifndef MPIB_PROXY_STATS_H
#define MPIB_PROXY_STATS_H

#include "base/loop.h"
#include "stats/command.h"

struct mpib_stats;

/* Serve fd, which stays the caller's. view describes the proxy; its snap is
 * filled in for each answer. -errno. */
int mpib_stats_open(struct mpib_loop *loop, struct mpib_engine *engine, int fd,
		    const struct mpib_view *view, struct mpib_stats **stats);
/* Serve the admin commands, too; *admin stays the caller's. */
void mpib_stats_admin(struct mpib_stats *stats, const struct mpib_admin *admin);
/* Hang up on everybody. Before mpib_engine_close(). */
void mpib_stats_stop(struct mpib_stats *stats);
/* After mpib_engine_close(), which may still bring a snapshot. */
void mpib_stats_free(struct mpib_stats *stats);

#endif
