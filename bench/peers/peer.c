/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the small programs share, see peer.h. */
#include "peers/peer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

void peer_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

uint64_t peer_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void *peer_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		peer_die("no memory for %zu bytes: %s", bytes, strerror(errno));
	return p;
}

void peer_say(const char *metric, double value)
{
	printf("%s %.9g\n", metric, value);
	fflush(stdout);
}

void peer_wrong(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: command line: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (see --help)\n", stderr);
	exit(2);
}

void peer_args(int argc, char **argv, int min, int max, const char *words)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			printf("Usage: %s %s\n", program_invocation_short_name,
			       words);
			exit(0);
		}
		if (!strcmp(argv[i], "--version")) {
			printf("%s %s\n", program_invocation_short_name,
			       MPIB_VERSION);
			exit(0);
		}
		if (argv[i][0] == '-')
			peer_wrong("%s is no option", argv[i]);
	}
	if (argc - 1 < min)
		peer_wrong("%d arguments, but %d are needed", argc - 1, min);
	if (argc - 1 > max)
		peer_wrong("%d arguments, but at most %d are allowed", argc - 1,
			   max);
}

uint64_t peer_size(const char *what, const char *text, uint64_t lo, uint64_t hi)
{
	static const char suffixes[] = "KMG";
	size_t len = strspn(text, "0123456789");
	const char *hit = len && text[len] ? strchr(suffixes, text[len]) : NULL;
	uint64_t n = strtoull(text, NULL, 10);

	/* At most 10 digits were parsed, so no suffix can overflow 64 bits. */
	if (hit)
		n <<= 10 * (hit - suffixes + 1);
	if (!len || len > 10 || text[hit ? len + 1 : len] || n < lo || n > hi)
		peer_wrong("%s: \"%s\" is not %llu..%llu, or K, M, G of them",
			   what, text, (unsigned long long)lo,
			   (unsigned long long)hi);
	return n;
}

double peer_number(const char *what, const char *text)
{
	size_t len = strspn(text, "0123456789.");
	char *end;
	double n = strtod(text, &end);

	if (!len || text[len] || *end || !(n > 0))
		peer_wrong("%s: \"%s\" is no number above 0", what, text);
	return n;
}
