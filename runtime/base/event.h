/* SPDX-License-Identifier: Apache-2.0 */
/* Events: state changes that an operator should know. Each becomes a log line
 * and a journal entry. The journal keeps the last MPIB_EVENTS in fixed memory,
 * and in a file if one is configured. Any thread, but never on a hot path:
 * adding an event takes a lock, reads the clock and may write to the file. */
#ifndef MPIB_BASE_EVENT_H
#define MPIB_BASE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#define MPIB_EVENTS 512
/* Limit the events that one user causes: a burst of MPIB_EVENTS_USER, then one
 * per MPIB_EVENTS_USER_NS. Further events go neither to the journal nor to the
 * log. Otherwise one user could push all other events out of the journal. */
#define MPIB_EVENTS_USER (MPIB_EVENTS / 4)
#define MPIB_EVENTS_USER_NS 30000000000u

/* The objects that an event is about. Fields that do not apply are 0. */
struct mpib_event_about {
	uint32_t rails; /* one bit per rail, numbered across all devices */
	uint32_t client; /* the client's id, 0 for none */
	const char *peer;
	uint64_t ns; /* duration */
	uint64_t bytes; /* bytes moved, or replayed by a failover */
	/* A user can cause any number of these events, so the limit applies. */
	bool of_user;
	uint32_t uid;
};

struct mpib_event {
	/* counts from 1, without gaps; with a file, also across restarts */
	uint64_t seq;
	uint64_t time_ns; /* CLOCK_REALTIME */
	enum mpib_log_level level;
	char kind[24];
	uint32_t rails;
	uint32_t client;
	char peer[64];
	uint64_t ns, bytes;
	char text[256];
};

/*
 * Log an event and add it to the journal. Any thread. `kind` is one of the
 * words of mpib-protocol(7). `about` may be NULL. Keeps errno, so %m may follow
 * a failed call.
 */
void mpib_event(enum mpib_log_level level, const char *kind,
		const struct mpib_event_about *about, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Copy up to `max` events whose seq is greater than `since` to `out`, oldest
 * first, and return their number. *last becomes the newest seq, or 0 if there
 * is no event. If out[0].seq > since + 1, the journal has lost the events in
 * between. Any thread. */
unsigned mpib_events_after(uint64_t since, struct mpib_event *out, unsigned max,
			   uint64_t *last);

/* Keep the journal in the file at `path` from now on, and continue the file's
 * numbers. Call this before anything reads the journal. A new file is written
 * beside the old one and then replaces it. -EINVAL: `path` is not a regular
 * file (but a pipe, for example) and is left unchanged. After an error (-errno)
 * the journal has no file. */
int mpib_events_file(const char *path);

/* Writes the file, so that a hanging disk blocks no other thread. */
extern struct mpib_writer mpib_event_writer;

#endif
