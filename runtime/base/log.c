/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic int threshold = MPIB_LOG_INFO;
static mpib_log_sink *custom_sink;

static const char *const names[] = { "error", "warn", "info", "debug" };
static const int syslog_levels[] = { 3, 4, 6, 7 };

static void stderr_sink(enum mpib_log_level level, const char *line)
{
	char out[1100];
	int n;

	if (getenv("JOURNAL_STREAM"))
		n = snprintf(out, sizeof(out), "<%d>%s\n", syslog_levels[level],
			     line);
	else
		n = snprintf(out, sizeof(out), "mpib: %s: %s\n", names[level],
			     line);

	/* One write(), so that lines of several threads do not mix. */
	if (write(STDERR_FILENO, out, (size_t)n) < 0)
		return;
}

void mpib_log_set_level(enum mpib_log_level level)
{
	/* Relaxed: it does not matter which level applies to lines written by
	 * other threads just now. */
	atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

enum mpib_log_level mpib_log_get_level(void)
{
	return (enum mpib_log_level)atomic_load_explicit(&threshold,
							 memory_order_relaxed);
}

void mpib_log_set_sink(mpib_log_sink *sink)
{
	custom_sink = sink;
}

void mpib_log(enum mpib_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[1024];
	va_list ap;

	if (level > mpib_log_get_level())
		return;

	va_start(ap, fmt);
	errno = saved;
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);

	(custom_sink ? custom_sink : stderr_sink)(level, line);
	errno = saved;
}

int mpib_log_level_parse(const char *name, enum mpib_log_level *level)
{
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i])) {
			*level = (enum mpib_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}
