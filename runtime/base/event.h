/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State changes worth telling a person, each one a line of the log and an
 * entry of a journal that keeps the last MPIB_EVENTS of them in fixed memory.
 * Never called from a hot path: it takes a lock and reads the clock.
 */
#ifndef MPIB_BASE_EVENT_H
#define MPIB_BASE_EVENT_H

#include <stdint.h>

#include "base/log.h"
#include "base/serial.h"

#define MPIB_EVENTS 512

/* What it is about; all zero when there is nothing to name. */
struct mpib_event_about {
	uint8_t rails; /* bit per rail, as 1 << MPIB_RAIL_SUP */
	uint32_t client; /* its id, which is never 0 */
	const char *peer;
	uint64_t ns; /* how long it took */
	uint64_t bytes; /* that it moved or saved */
};

struct mpib_event {
	uint64_t seq; /* 1 for the first of all processes, no gaps */
	uint64_t time_ns; /* CLOCK_REALTIME */
	enum mpib_log_level level;
	char kind[24];
	uint8_t rails;
	uint32_t client;
	char peer[64];
	uint64_t ns, bytes;
	char text[256];
};

/*
 * Any thread. kind is one of the words of mpib-protocol(7). about may be NULL. Keeps errno, so %m may follow a failed call.
 */
void mpib_event(enum mpib_log_level level, const char *kind,
		const struct mpib_event_about *about, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Any thread. Copies the oldest kept events after seq since, at most max, in
 * order; how many. *last is the seq of the newest there is, 0 for none, so
 * more were lost than kept when out[0].seq > since + 1.
 */
unsigned mpib_events_after(uint64_t since, struct mpib_event *out, unsigned max,
			   uint64_t *last);

/* The journal. Unpacked, what was told in this process comes behind it, with
 * numbers that follow; it may have been read by nobody before. */
void mpib_events_serial(struct mpib_serial *p);

#endif
