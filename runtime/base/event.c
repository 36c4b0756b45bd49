/* SPDX-License-Identifier: Apache-2.0 */
#include "base/event.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpib_event journal[MPIB_EVENTS]; /* at seq % MPIB_EVENTS */
static uint64_t newest;

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The caller holds the lock. */
static void event_add(const struct mpib_event *e)
{
	struct mpib_event *to = &journal[++newest % MPIB_EVENTS];

	*to = *e;
	to->seq = newest;
}

void mpib_event(enum mpib_log_level level, const char *kind,
		const struct mpib_event_about *about, const char *fmt, ...)
{
	static const struct mpib_event_about nothing;
	const struct mpib_event_about *a = about ? about : &nothing;
	struct mpib_event e = {
		.time_ns = realtime_ns(),
		.level = level,
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
	snprintf(e.kind, sizeof(e.kind), "%s", kind);
	mpib_log_event(level, e.kind, e.text);

	pthread_mutex_lock(&lock);
	event_add(&e);
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
	/* A since beyond newest, even UINT64_MAX, gives no events. */
	for (; since < newest && seq <= newest && n < max; seq++)
		out[n++] = journal[seq % MPIB_EVENTS];
	pthread_mutex_unlock(&lock);
	return n;
}

static void event_entry(struct mpib_serial *p, struct mpib_event *e)
{
	uint8_t level = (uint8_t)e->level;

	mpib_serial_u64(p, &e->time_ns);
	mpib_serial_u8(p, &level);
	e->level = level > MPIB_LOG_DEBUG ? MPIB_LOG_DEBUG
					  : (enum mpib_log_level)level;
	mpib_serial_text(p, e->kind, sizeof(e->kind));
	mpib_serial_u32(p, &e->rails);
	mpib_serial_u32(p, &e->client);
	mpib_serial_text(p, e->peer, sizeof(e->peer));
	mpib_serial_u64(p, &e->ns);
	mpib_serial_u64(p, &e->bytes);
	mpib_serial_text(p, e->text, sizeof(e->text));
}

/* How many events the journal holds when last is the newest seq. */
static unsigned event_kept(uint64_t last)
{
	return last < MPIB_EVENTS ? (unsigned)last : MPIB_EVENTS;
}

void mpib_events_serial(struct mpib_serial *p)
{
	struct mpib_event *own = calloc(MPIB_EVENTS, sizeof(*own)), e = { 0 };
	uint32_t n;
	uint64_t last, mine;

	pthread_mutex_lock(&lock);
	mine = event_kept(newest);
	for (uint64_t i = 0; own && i < mine; i++)
		own[i] = journal[(newest - mine + 1 + i) % MPIB_EVENTS];
	last = newest;
	n = own ? (uint32_t)mine : 0;
	mpib_serial_mark(p, "events");
	mpib_serial_u64(p, &last);
	mpib_serial_count(p, &n, MPIB_EVENTS);
	if (!p->packing)
		newest = last > n ? last - n : 0;
	for (uint32_t i = 0; i < n && !p->failed; i++) {
		if (p->packing)
			e = own[i];
		event_entry(p, &e);
		if (!p->packing)
			event_add(&e);
	}
	for (uint64_t i = 0; !p->packing && own && i < mine; i++)
		event_add(&own[i]);
	pthread_mutex_unlock(&lock);
	free(own);
}
