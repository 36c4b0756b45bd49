/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/memseg.h"

bool mpib_number(const char *text, uint64_t least, uint64_t most, uint64_t *n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &end, 10);
	return !*end && errno == 0 && *n >= least && *n <= most;
}

/* Return whether the file can be read to its end: a pipe or a terminal blocks
 * until data is written, and /dev/zero has no end. */
static bool text_ends(const struct stat *st)
{
	return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) ||
	       (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3));
}

int mpib_text_open(FILE **file, const char *path, const char **bad)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int rc = 0;

	if (fd < 0 || mpib_fstat(fd, &st) < 0) {
		rc = -errno;
		*bad = strerror(errno);
	} else if (!text_ends(&st)) {
		rc = -EINVAL;
		*bad = "it is not a regular file";
	} else if (st.st_size > MPIB_TEXT_MAX) {
		rc = -EFBIG;
		*bad = "it is larger than 1 MiB";
	} else {
		*file = fdopen(fd, "r");
		rc = *file ? 0 : -errno;
		*bad = strerror(errno);
	}
	if (rc < 0 && fd >= 0)
		close(fd);
	return rc;
}

static const char *file_fault(int fd, unsigned flags)
{
	struct stat st;

	if (mpib_fstat(fd, &st) < 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "it is not a regular file (name one)";
	if (flags & MPIB_FILE_SECRET && st.st_mode & 077)
		return "others can read or write it (chmod 600)";
	if (flags & MPIB_FILE_OWNED && st.st_uid != 0 && st.st_uid != geteuid())
		return "it belongs to another user (chown it to root)";
	return NULL;
}

ssize_t mpib_file_read(const char *path, unsigned flags, void *buf, size_t size,
		       const char **bad)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -errno : 0;

	if (fd < 0) {
		*bad = errno == ENOENT
			       ? "there is no such file (make it, or name another)"
			       : strerror(errno);
		return n;
	}
	*bad = file_fault(fd, flags);
	if (!*bad) {
		n = read(fd, buf, size);
		if (n <= 0)
			*bad = n < 0 ? strerror(errno)
				     : "it is empty (fill it)";
	}
	close(fd);
	return *bad ? -EINVAL : n;
}

/* Do not use stdio, which allocates: this function is also called in a child
 * that was forked while another thread of the parent was allocating. The kernel
 * returns these files in one read. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
{
	char path[512];
	ssize_t n = 0;
	va_list ap;
	int fd;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, buf, len - 1);
		close(fd);
	}
	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return buf[0];
}

/* Return whether the second byte makes the character overlong, a surrogate or
 * out of range. */
static bool utf8_wrong(const unsigned char *s)
{
	return (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) ||
	       (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90);
}

unsigned mpib_utf8_bytes(const unsigned char *s)
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

void mpib_utf8_make(char *text)
{
	unsigned n;

	for (; *text; text += n ? n : 1) {
		n = mpib_utf8_bytes((const unsigned char *)text);
		if (n == 0)
			*text = '?';
	}
}

#define WORD_MAX 63

static unsigned suggest_min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Return the number of insertions, removals and replacements that turn `a` into
 * `b`; 63 if either is longer than 63 bytes. Any thread. */
static unsigned edit_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[WORD_MAX + 1];

	if (la > WORD_MAX || lb > WORD_MAX)
		return WORD_MAX;

	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned corner = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned up = row[j];

			row[j] = suggest_min3(up + 1, row[j - 1] + 1,
					      corner + (a[i - 1] != b[j - 1]));
			corner = up;
		}
	}
	return row[lb];
}

void mpib_suggest_try(struct mpib_suggest *s, const char *candidate)
{
	unsigned d = edit_distance(s->typed, candidate);

	if (!s->best || d < s->distance) {
		s->best = candidate;
		s->distance = d;
	}
}

const char *mpib_suggest_best(const struct mpib_suggest *s)
{
	size_t len = strlen(s->typed);

	/* A name is similar if it differs from a short word in at most half of
	 * the letters, or from a long word in at most three letters. */
	return s->best && s->distance <= (len > 6 ? 3 : len / 2) ? s->best
								 : NULL;
}

const char *mpib_suggest_remedy(const struct mpib_suggest *s,
				const char *otherwise, char *buf, size_t len)
{
	const char *best = mpib_suggest_best(s);

	if (!best)
		return otherwise;
	snprintf(buf, len, "did you mean %s?", best);
	return buf;
}

const char *mpib_option_word(char **argv, const char *shorts)
{
	const char *at = argv[optind];

	/* If letters of a word are left, getopt() leaves optind at this word.
	 * Otherwise it moves optind to the next word. */
	if (optopt > 0 && optopt < 256 && !strchr(shorts, optopt) && at &&
	    at[0] == '-' && at[1] != '-' && strchr(at, optopt))
		return at;
	return argv[optind - 1];
}

void mpib_ascii_make(char *text)
{
	for (; *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}
