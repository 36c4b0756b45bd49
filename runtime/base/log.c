/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int threshold = MPIB_LOG_INFO;
static mpib_log_sink *custom_sink;
static bool json;

static const char *const names[] = { "error", "warn", "info", "debug" };
static const int syslog_levels[] = { 3, 4, 6, 7 };

static void stderr_sink(enum mpib_log_level level, const char *line)
{
	char out[2200];
	int n;

	if (getenv("JOURNAL_STREAM"))
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

	/* Each gets the lowest number that is free. A program that is executed does
	 * the same for itself. */
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

void mpib_log_set_level(enum mpib_log_level level)
{
	/* Relaxed: it does not matter which level applies to lines written by
	 * other threads just now. */
	atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

static enum mpib_log_level log_level(void)
{
	return (enum mpib_log_level)atomic_load_explicit(&threshold,
							 memory_order_relaxed);
}

void mpib_log_set_sink(mpib_log_sink *sink)
{
	custom_sink = sink;
}

void mpib_log_set_json(bool on)
{
	json = on;
}

bool mpib_log_is_json(void)
{
	return json;
}

/* A second byte that makes a character too long, a surrogate or too high. */
static bool utf8_wrong(const unsigned char *s)
{
	return (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) ||
	       (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90);
}

/* The bytes of the UTF-8 character that s begins with; 0: it is none. */
static unsigned utf8_bytes(const unsigned char *s)
{
	unsigned n = 4;

	if (*s < 0x80)
		return 1;
	if (*s < 0xc2 || *s > 0xf4)
		return 0;
	if (*s < 0xf0)
		n = *s < 0xe0 ? 2 : 3;
	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return utf8_wrong(s) ? 0 : n;
}

/* Write text as it stands between the quotes of a JSON string into buf; what has
 * no room is left out, and what is no UTF-8 is a "?". Returns the length. */
static size_t json_text(const char *text, char *buf, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0;

	while (*s && at + 7 < len) {
		unsigned n = utf8_bytes(s);

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

static void log_line(enum mpib_log_level level, const char *kind,
		     const char *text)
{
	char line[2100];

	if (json)
		json_line(level, kind, text, line, sizeof(line));
	(custom_sink ? custom_sink : stderr_sink)(level, json ? line : text);
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
	log_line(level, NULL, text);
	errno = saved;
}

void mpib_log_event(enum mpib_log_level level, const char *kind,
		    const char *text)
{
	int saved = errno;

	if (level <= log_level())
		log_line(level, kind, text);
	errno = saved;
}
