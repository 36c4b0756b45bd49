/* SPDX-License-Identifier: Apache-2.0 */
#include "base/event.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The event with number `seq` is stored at index seq % MPIB_EVENTS. */
static struct mpib_event journal[MPIB_EVENTS];
/* numbers of the newest and the oldest event kept; 0 and 1: no events */
static uint64_t newest, oldest = 1;
static int file = -1; /* holds a copy of each event; -1: no file */
struct mpib_writer mpib_event_writer = MPIB_WRITER_INIT(mpib_event_writer);

/* The limit on the events of each user. If the table is full, the user who has
 * paid least is replaced. */
static struct event_user {
	uint32_t uid;
	uint64_t paid; /* for events, see mpib_rate_pay(); 0: unused entry */
	uint64_t out; /* events left out since the last one written */
} users[64];

/* An event in the file, at the same index as in the journal. The checksum
 * detects entries that were never written, half-written entries, and entries
 * written by a version of the program whose events have other fields. */
struct event_record {
	uint64_t sum;
	struct mpib_event event;
};

/* FNV-1a over all bytes of the event. */
static uint64_t event_sum(const struct mpib_event *e)
{
	const uint8_t *byte = (const uint8_t *)e;
	uint64_t sum = 0xcbf29ce484222325u ^ sizeof(*e);

	for (size_t i = 0; i < sizeof(*e); i++)
		sum = (sum ^ byte[i]) * 0x100000001b3u;
	return sum;
}

static off_t event_place(uint64_t seq)
{
	return (off_t)(seq % MPIB_EVENTS * sizeof(struct event_record));
}

static int event_write(int fd, const struct mpib_event *e)
{
	struct event_record r = { .event = *e };
	ssize_t n;

	r.sum = event_sum(&r.event);
	n = pwrite(fd, &r, sizeof(r), event_place(e->seq));
	if (n == (ssize_t)sizeof(r))
		return 0;
	return n < 0 ? -errno : -ENOSPC;
}

/* An event, and the descriptor of the file that was open when it happened. */
struct event_job {
	int fd;
	struct mpib_event event;
};

/* Close the file after a failed write to fd, unless the file was replaced. */
static void event_file_lost(int fd, int rc)
{
	bool lost;

	pthread_mutex_lock(&lock);
	lost = file == fd;
	if (lost)
		file = -1;
	pthread_mutex_unlock(&lock);
	if (!lost)
		return;
	close(fd);
	mpib_warn("the file of events is no longer written: %s (events are "
		  "numbered from 1 after a restart)",
		  strerror(-rc));
}

static void event_job_write(const void *data, size_t len)
{
	struct event_job job;
	int rc;

	(void)len;
	memcpy(&job, data, sizeof(job));
	rc = event_write(job.fd, &job.event);
	if (rc < 0)
		event_file_lost(job.fd, rc);
}

/* Queue e for the file. A dropped event leaves a gap; a restart continues after
 * the newest event in the file. */
static void event_keep(int fd, const struct mpib_event *e)
{
	struct event_job job = { .fd = fd, .event = *e };

	mpib_writer_put(&mpib_event_writer, event_job_write, &job, sizeof(job));
}

/* Add e to the journal and number it. The caller holds the lock. */
static void event_add(struct mpib_event *e)
{
	e->seq = ++newest;
	journal[newest % MPIB_EVENTS] = *e;
}

static struct event_user *event_user_of(uint32_t uid)
{
	struct event_user *least = users;

	for (unsigned i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		if (users[i].paid && users[i].uid == uid)
			return &users[i];
		if (users[i].paid < least->paid)
			least = &users[i];
	}
	*least = (struct event_user){ .uid = uid };
	return least;
}

/* Return whether the user may cause one more event. If so, set *out to the
 * number of the user's events left out since the last one written. Set *last if
 * this event uses up the user's limit, so that an immediate next one is left
 * out. The caller holds the lock. */
static bool event_may(uint32_t uid, uint64_t *out, bool *last)
{
	const uint64_t ahead = (MPIB_EVENTS_USER - 1) * MPIB_EVENTS_USER_NS;
	struct event_user *u = event_user_of(uid);
	uint64_t now = mpib_now_ns();

	if (!mpib_rate_take(&u->paid, now, MPIB_EVENTS_USER,
			    MPIB_EVENTS_USER_NS)) {
		u->out++;
		return false;
	}
	*out = u->out;
	u->out = 0;
	*last = mpib_rate_wait(u->paid, now, ahead) > 0;
	return true;
}

/* Return whether the event is within its user's limit. If the user's events
 * before or after this one are left out, write a prefix that says so. */
static bool event_room(const struct mpib_event_about *a, char *text, size_t len)
{
	uint64_t out = 0;
	bool last = false, may;

	if (!a->of_user)
		return true;
	pthread_mutex_lock(&lock);
	may = event_may(a->uid, &out, &last);
	pthread_mutex_unlock(&lock);
	if (out)
		snprintf(text, len, "[left out: %llu events of uid %u] ",
			 (unsigned long long)out, a->uid);
	else if (last)
		snprintf(text, len, "[further events of uid %u are left out] ",
			 a->uid);
	return may;
}

void mpib_event(enum mpib_log_level level, const char *kind,
		const struct mpib_event_about *about, const char *fmt, ...)
{
	static const struct mpib_event_about nothing;
	const struct mpib_event_about *a = about ? about : &nothing;
	struct mpib_event e = {
		.time_ns = mpib_clock_ns(CLOCK_REALTIME),
		.level = level,
		.rails = a->rails,
		.client = a->client,
		.ns = a->ns,
		.bytes = a->bytes,
	};
	int saved = errno, fd;
	size_t at;
	va_list ap;

	if (!event_room(a, e.text, sizeof(e.text))) {
		errno = saved;
		return;
	}
	at = strlen(e.text);
	va_start(ap, fmt);
	errno = saved;
	vsnprintf(e.text + at, sizeof(e.text) - at, fmt, ap);
	va_end(ap);
	snprintf(e.peer, sizeof(e.peer), "%s", a->peer ? a->peer : "");
	snprintf(e.kind, sizeof(e.kind), "%s", kind);
	mpib_log_event(level, kind, e.text);

	pthread_mutex_lock(&lock);
	event_add(&e);
	fd = file;
	pthread_mutex_unlock(&lock);
	if (fd >= 0)
		event_keep(fd, &e);
	errno = saved;
}

/* Return how many events the journal holds. */
static unsigned event_kept(void)
{
	uint64_t n = newest + 1 - oldest;

	return n < MPIB_EVENTS ? (unsigned)n : MPIB_EVENTS;
}

unsigned mpib_events_after(uint64_t since, struct mpib_event *out, unsigned max,
			   uint64_t *last)
{
	uint64_t seq = since + 1;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	*last = newest;
	if (seq < newest - event_kept() + 1)
		seq = newest - event_kept() + 1;
	/* Return no events if `since` is greater than `newest`; `since` may be
	 * UINT64_MAX. */
	for (; since < newest && seq <= newest && n < max; seq++)
		out[n++] = journal[seq % MPIB_EVENTS];
	pthread_mutex_unlock(&lock);
	return n;
}

static bool event_read(int fd, uint64_t place, struct mpib_event *e)
{
	struct event_record r;

	if (pread(fd, &r, sizeof(r), event_place(place)) !=
		    (ssize_t)sizeof(r) ||
	    event_sum(&r.event) != r.sum || r.event.seq == 0 ||
	    r.event.seq > INT64_MAX / 2 ||
	    r.event.seq % MPIB_EVENTS != place % MPIB_EVENTS ||
	    r.event.level > MPIB_LOG_DEBUG ||
	    r.event.kind[sizeof(e->kind) - 1] ||
	    r.event.peer[sizeof(e->peer) - 1] ||
	    r.event.text[sizeof(e->text) - 1])
		return false;
	*e = r.event;
	return true;
}

/* Load the journal from the file: its newest events, back to the first gap. The
 * caller holds the lock. */
static void events_load(int fd)
{
	struct mpib_event e;
	uint64_t last = 0, first;

	for (uint64_t i = 0; i < MPIB_EVENTS; i++) {
		if (event_read(fd, i, &e) && e.seq > last)
			last = e.seq;
	}
	for (first = last; first > 0 && last - first < MPIB_EVENTS; first--) {
		if (!event_read(fd, first, &e) || e.seq != first)
			break;
		journal[first % MPIB_EVENTS] = e;
	}
	newest = last;
	oldest = first + 1;
}

/* Write a new file with all events of the journal, then rename it to path.
 * Return its descriptor, or -errno. */
static int events_file_new(const char *path)
{
	char beside[320];
	uint64_t n = event_kept();
	int fd, rc = 0;

	if (snprintf(beside, sizeof(beside), "%s.new", path) >=
	    (int)sizeof(beside))
		return -ENAMETOOLONG;
	unlink(beside);
	fd = open(beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	for (uint64_t seq = newest + 1 - n; rc == 0 && seq <= newest; seq++)
		rc = event_write(fd, &journal[seq % MPIB_EVENTS]);
	if (rc == 0 && rename(beside, path) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	close(fd);
	unlink(beside);
	return rc;
}

/* Open the existing file for reading. If the path names a pipe, do not wait for
 * a writer. Return the descriptor or -errno. -EINVAL: not a regular file. */
static int events_file_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

int mpib_events_file(const char *path)
{
	struct mpib_event *own = calloc(MPIB_EVENTS, sizeof(*own));
	uint64_t mine = 0;
	int fd;

	if (!own)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	fd = events_file_open(path);
	if (fd >= 0) {
		mine = event_kept();
		for (uint64_t i = 0; i < mine; i++)
			own[i] = journal[(newest + 1 - mine + i) % MPIB_EVENTS];
		events_load(fd);
		close(fd);
	}
	for (uint64_t i = 0; i < mine; i++)
		event_add(&own[i]);
	fd = fd == -EINVAL ? -EINVAL : events_file_new(path);
	if (file >= 0)
		close(file);
	file = fd >= 0 ? fd : -1;
	pthread_mutex_unlock(&lock);
	free(own);
	return fd < 0 ? fd : 0;
}
