/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"

/* Allow LOG_BURST lines of one format string at once, then one per
 * LOG_REFILL_NS. */
#define LOG_BURST 200u
#define LOG_REFILL_NS 100000000ull

/* Limits the lines of one format string. So a peer or client that keeps causing
 * the same warning cannot fill the disk. Format strings with the same hash
 * share a limit. */
struct log_limit {
	uint64_t paid; /* for lines, see mpib_rate_pay() */
	uint32_t dropped; /* lines dropped since the last line written */
};

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limit limits[512];
struct mpib_writer mpib_log_writer = MPIB_WRITER_INIT(mpib_log_writer);
static _Atomic int threshold = MPIB_LOG_INFO;
/* A daemon sets this when it is ready. The writer's thread may be running
 * before that. So the store is a release store: it publishes what the caller
 * prepared for the sink. It pairs with the acquire in log_write(). */
static _Atomic(mpib_log_sink *) custom_sink;
static bool json;

static const char *const names[] = { "error", "warn", "info", "debug" };
static const int syslog_levels[] = { 3, 4, 6, 7 };

bool mpib_log_is_journal(void)
{
	const char *value = getenv("JOURNAL_STREAM");
	char is[64];
	struct stat st;

	if (!value || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(is, sizeof(is), "%ju:%ju", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
	return strcmp(value, is) == 0;
}

static void stderr_sink(enum mpib_log_level level, const char *line)
{
	char out[2200];
	int n;

	if (mpib_log_is_journal())
		n = snprintf(out, sizeof(out), "<%d>%s\n", syslog_levels[level],
			     line);
	else if (json)
		n = snprintf(out, sizeof(out), "%s\n", line);
	else
		n = snprintf(out, sizeof(out), "mpib: %s: %s\n", names[level],
			     line);

	/* One write(), so that lines of several threads do not mix. */
	if (write(STDERR_FILENO, out, (size_t)n) < 0)
		return;
}

void mpib_log_begin(void)
{
	int fd;

	/* Each open() gets the lowest free number. Use close-on-exec, because
	 * an executed program opens /dev/null itself. */
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

void mpib_log_set_level(enum mpib_log_level level)
{
	/* Relaxed: lines that other threads write at this moment may use either
	 * level. */
	atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

static enum mpib_log_level log_level(void)
{
	return (enum mpib_log_level)atomic_load_explicit(&threshold,
							 memory_order_relaxed);
}

void mpib_log_set_sink(mpib_log_sink *sink)
{
	atomic_store_explicit(&custom_sink, sink, memory_order_release);
}

void mpib_log_set_json(bool on)
{
	json = on;
}

bool mpib_log_is_json(void)
{
	return json;
}

/* Write text into buf as the contents of a JSON string: text that does
 * not fit is cut off, and each byte that is not UTF-8 becomes "?". Return
 * the length. */
static size_t json_text(const char *text, char *buf, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0;

	while (*s && at + 7 < len) {
		unsigned n = mpib_utf8_bytes(s);

		if (n == 0)
			buf[at++] = '?';
		else if (*s == '"' || *s == '\\')
			at += (size_t)sprintf(buf + at, "\\%c", *s);
		else if (*s < 0x20)
			at += (size_t)sprintf(buf + at, "\\u%04x", *s);
		else
			at += (size_t)sprintf(buf + at, "%.*s", (int)n,
					      (const char *)s);
		s += n ? n : 1;
	}
	buf[at] = '\0';
	return at;
}

static void json_line(enum mpib_log_level level, const char *kind,
		      const char *text, char *buf, size_t len)
{
	struct timespec now;
	size_t at;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	at = strftime(buf, len, "{\"time\":\"%Y-%m-%dT%H:%M:%S",
		      gmtime_r(&now.tv_sec, &tm));
	at += (size_t)snprintf(buf + at, len - at,
			       ".%06ldZ\",\"level\":\"%s\",",
			       now.tv_nsec / 1000, names[level]);
	if (kind)
		at += (size_t)snprintf(buf + at, len - at, "\"kind\":\"%s\",",
				       kind);
	at += (size_t)snprintf(buf + at, len - at, "\"text\":\"");
	at += json_text(text, buf + at, len - at - 2);
	snprintf(buf + at, len - at, "\"}");
}

/* A line in the writer's queue. */
struct log_entry {
	enum mpib_log_level level;
	char line[2100];
};

/* Format a line. Return the number of bytes of *e that are used. */
static size_t log_entry(struct log_entry *e, enum mpib_log_level level,
			const char *kind, const char *text)
{
	e->level = level;
	if (json)
		json_line(level, kind, text, e->line, sizeof(e->line));
	else
		snprintf(e->line, sizeof(e->line), "%s", text);
	return offsetof(struct log_entry, line) + strlen(e->line) + 1;
}

/* Return how many writes were dropped since the last call. */
static uint64_t writer_lost(struct mpib_writer *writer)
{
	uint64_t lost;

	pthread_mutex_lock(&writer->lock);
	lost = writer->lost;
	writer->lost = 0;
	pthread_mutex_unlock(&writer->lock);
	return lost;
}

static void log_write(const void *data, size_t len)
{
	mpib_log_sink *sink =
		atomic_load_explicit(&custom_sink, memory_order_acquire);
	uint64_t lost = writer_lost(&mpib_log_writer);
	struct log_entry e;
	char text[128];

	if (!sink)
		sink = stderr_sink;
	if (lost) {
		snprintf(text, sizeof(text),
			 "%llu log lines lost: they were not read in time",
			 (unsigned long long)lost);
		log_entry(&e, MPIB_LOG_WARN, NULL, text);
		sink(e.level, e.line);
	}
	memcpy(&e, data, len);
	sink(e.level, e.line);
}

/* Return whether the limit allows one more line with this key. The key is the
 * address of a line's format string or of an event's kind. *dropped: lines
 * dropped since the last one written. */
static bool log_may(const char *key, uint32_t *dropped)
{
	uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
	struct log_limit *limit = &limits[hash >> 55];
	bool may;

	pthread_mutex_lock(&limits_lock);
	may = mpib_rate_take(&limit->paid, mpib_now_ns(), LOG_BURST,
			     LOG_REFILL_NS);
	limit->dropped += !may;
	*dropped = may ? limit->dropped : 0;
	limit->dropped -= *dropped;
	pthread_mutex_unlock(&limits_lock);
	return may;
}

static void log_line(enum mpib_log_level level, const char *key,
		     const char *kind, const char *text)
{
	char note[64];
	struct log_entry e;
	uint32_t dropped;
	size_t len;

	if (!log_may(key, &dropped))
		return;
	if (dropped) {
		snprintf(note, sizeof(note), "dropped %u lines like the next",
			 dropped);
		len = log_entry(&e, level, NULL, note);
		mpib_writer_put(&mpib_log_writer, log_write, &e, len);
	}
	len = log_entry(&e, level, kind, text);
	mpib_writer_put(&mpib_log_writer, log_write, &e, len);
}

void mpib_log(enum mpib_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char text[1024];
	va_list ap;

	if (level > log_level())
		return;

	va_start(ap, fmt);
	errno = saved;
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_line(level, fmt, NULL, text);
	errno = saved;
}

void mpib_log_event(enum mpib_log_level level, const char *kind,
		    const char *text)
{
	int saved = errno;

	if (level <= log_level())
		log_line(level, kind, kind, text);
	errno = saved;
}

struct mpib_writer_job {
	TAILQ_ENTRY(mpib_writer_job) link;
	mpib_write_fn *write;
	size_t len;
	char data[];
};

static void *writer_run(void *arg)
{
	struct mpib_writer *writer = arg;
	struct mpib_writer_job *job;

	pthread_mutex_lock(&writer->lock);
	for (;;) {
		while (TAILQ_EMPTY(&writer->jobs))
			pthread_cond_wait(&writer->queued, &writer->lock);
		job = TAILQ_FIRST(&writer->jobs);
		TAILQ_REMOVE(&writer->jobs, job, link);
		pthread_mutex_unlock(&writer->lock);
		job->write(job->data, job->len);
		pthread_mutex_lock(&writer->lock);
		writer->bytes -= sizeof(*job) + job->len;
		free(job);
	}
	return NULL;
}

int mpib_writer_start(struct mpib_writer *writer)
{
	int rc = 0;

	pthread_mutex_lock(&writer->lock);
	if (!writer->started)
		rc = mpib_thread_create(NULL, writer_run, writer);
	writer->started |= rc == 0;
	pthread_mutex_unlock(&writer->lock);
	return rc;
}

/* Return NULL if the queue is full. The caller holds the lock. */
static struct mpib_writer_job *job_new(struct mpib_writer *writer,
				       mpib_write_fn *write, const void *data,
				       size_t len)
{
	struct mpib_writer_job *job;

	if (writer->bytes + sizeof(*job) + len > MPIB_WRITER_BYTES)
		return NULL;
	job = malloc(sizeof(*job) + len);
	if (!job)
		return NULL;
	job->write = write;
	job->len = len;
	memcpy(job->data, data, len);
	return job;
}

bool mpib_writer_put(struct mpib_writer *writer, mpib_write_fn *write,
		     const void *data, size_t len)
{
	struct mpib_writer_job *job = NULL;
	bool started;

	pthread_mutex_lock(&writer->lock);
	started = writer->started;
	if (started)
		job = job_new(writer, write, data, len);
	if (job) {
		writer->bytes += sizeof(*job) + len;
		TAILQ_INSERT_TAIL(&writer->jobs, job, link);
		pthread_cond_signal(&writer->queued);
	} else if (started) {
		writer->lost++;
	}
	pthread_mutex_unlock(&writer->lock);
	if (!started)
		write(data, len);
	return job || !started;
}

static bool is_idle(struct mpib_writer *writer)
{
	bool idle;

	pthread_mutex_lock(&writer->lock);
	idle = writer->bytes == 0;
	pthread_mutex_unlock(&writer->lock);
	return idle;
}

void mpib_writer_drain(struct mpib_writer *writer)
{
	for (unsigned ms = 0; ms < 1000 && !is_idle(writer); ms++)
		usleep(1000);
}
