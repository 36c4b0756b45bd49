/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody wrote: numbers, and files of text, line by line. Reading a file waits
 * for nobody, whatever stands in the file's place, and takes no more memory the longer
 * its lines are. Any thread, one at a time.
 */
#ifndef MPIB_BASE_TEXT_H
#define MPIB_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A number from least to most: digits, and nothing before or behind them. */
bool mpib_number(const char *text, uint64_t least, uint64_t most, uint64_t *n);

struct mpib_text_file {
	int fd;
	size_t at, end; /* what of buf was read and not taken yet */
	char buf[4096];
};

/* Open a file, which is a regular one or /dev/null, to read. 0, or -errno with
 * the reason in bad. A directory only fails when it is read. */
int mpib_text_open(struct mpib_text_file *t, const char *path,
		   const char **bad);

/*
 * The next line into line, of size bytes, with its newline and a 0 behind it.
 * Returns its length, which may be that of a line that did not fit: of this
 * line has the beginning. 0: there is no other; or -errno.
 */
ssize_t mpib_text_line(struct mpib_text_file *t, char *line, size_t size);

void mpib_text_close(struct mpib_text_file *t);

/* Files of /proc and /sys that say one thing each. */

/* Read the first line of the file that fmt names into buf, without its newline.
 * False, and "" in buf, when the file cannot be read or is empty. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Text from outside, such as a host name or a path, may have any bytes; JSON may not,
 * and its library refuses the whole object. Any thread.
 */

/* The bytes of the UTF-8 character that s begins with; 0: it is none. */
unsigned mpib_utf8_bytes(const unsigned char *s);

/* Make each byte of text that is not UTF-8 a "?". */
void mpib_utf8_make(char *text);
/* Make each byte that is not printable ASCII a "?". */
void mpib_ascii_make(char *text);

/* The number of insertions, removals and replacements that make b out of a; 63
 * if either is longer than 63 bytes. Any thread. */
unsigned mpib_edit_distance(const char *a, const char *b);

/* Finds the name that a mistyped word was meant to be: set typed, try every
 * candidate, then ask for the best. Any thread. */
struct mpib_suggest {
	const char *typed, *best;
	unsigned distance;
};

void mpib_suggest_try(struct mpib_suggest *s, const char *candidate);
/* NULL if no candidate is near. */
const char *mpib_suggest_best(const struct mpib_suggest *s);
/* "did you mean NAME?", in buf, or otherwise if no candidate is near. */
const char *mpib_suggest_remedy(const struct mpib_suggest *s,
				const char *otherwise, char *buf, size_t len);

/* The word that getopt_long() has just refused; shorts are the letters that it knows. */
const char *mpib_option_word(char **argv, const char *shorts);

#endif
