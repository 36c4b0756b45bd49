/* SPDX-License-Identifier: Apache-2.0 */
#include "base/event.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpib_event journal[MPIB_EVENTS]; /* event seq at seq % size */
static uint64_t newest;

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void mpib_event(enum mpib_log_level level, const char *kind,
		const struct mpib_event_about *about, const char *fmt, ...)
{
	static const struct mpib_event_about nothing;
	const struct mpib_event_about *a = about ? about : &nothing;
	struct mpib_event e = {
		.time_ns = realtime_ns(),
		.level = level,
		.kind = kind,
		.rails = a->rails,
		.client = a->client,
		.ns = a->ns,
		.bytes = a->bytes,
	};
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	errno = saved;
	vsnprintf(e.text, sizeof(e.text), fmt, ap);
	va_end(ap);
	snprintf(e.peer, sizeof(e.peer), "%s", a->peer ? a->peer : "");
	mpib_log(level, "%s", e.text);

	pthread_mutex_lock(&lock);
	e.seq = ++newest;
	journal[e.seq % MPIB_EVENTS] = e;
	pthread_mutex_unlock(&lock);
	errno = saved;
}

unsigned mpib_events_after(uint64_t since, struct mpib_event *out, unsigned max,
			   uint64_t *last)
{
	uint64_t seq = since + 1;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	*last = newest;
	if (newest >= MPIB_EVENTS && seq <= newest - MPIB_EVENTS)
		seq = newest - MPIB_EVENTS + 1;
	/* A since beyond the newest, even UINT64_MAX, gives nothing. */
	for (; since < newest && seq <= newest && n < max; seq++)
		out[n++] = journal[seq % MPIB_EVENTS];
	pthread_mutex_unlock(&lock);
	return n;
}
