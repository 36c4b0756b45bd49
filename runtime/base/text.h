/* SPDX-License-Identifier: Apache-2.0 */
/* Parses text written by people: numbers, and text files line by line. Reading
 * never blocks, whatever kind of file the path names. Any thread; one thread at
 * a time per file. */
#ifndef MPIB_BASE_TEXT_H
#define MPIB_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Parse a number in the range from `least` to `most`. The text must contain
 * only digits. */
bool mpib_number(const char *text, uint64_t least, uint64_t most, uint64_t *n);

/* getline() allocates memory for the longest line, so refuse larger files. */
#define MPIB_TEXT_MAX (1 << 20)

/* Open a regular file or /dev/null for getline(3). Return 0, or -errno with the
 * reason in *bad. A directory can be opened, but reading it fails. */
int mpib_text_open(FILE **file, const char *path, const char **bad);

/* Files with secrets, and other files that are read in one piece. */

#define MPIB_FILE_SECRET 1u /* other users must not have access */
#define MPIB_FILE_OWNED 2u /* it must belong to root or to this user */

/* Check that a regular file meets `flags`, and read at most its first `size`
 * bytes. Return the number of bytes, which is not 0, or -errno with the reason
 * in *bad. */
ssize_t mpib_file_read(const char *path, unsigned flags, void *buf, size_t size,
		       const char **bad);

/* Files of /proc and /sys with a single value. */

/* Read the first line of a file into buf, without its newline. `fmt` and the
 * further arguments make the file's path. If the file cannot be read or is
 * empty, return false, with "" in buf. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Text from outside, such as a host name or a path, may contain any bytes. JSON
 * allows only UTF-8, and the JSON library rejects the whole object otherwise.
 * Any thread. */

/* Return the length of the UTF-8 character at s; 0: not UTF-8. */
unsigned mpib_utf8_bytes(const unsigned char *s);

/* Replace each byte that is not part of a UTF-8 character by "?". */
void mpib_utf8_make(char *text);
/* Replace each byte that is not printable ASCII by "?". */
void mpib_ascii_make(char *text);

/* Find the name that the user probably meant: set `typed`, try every candidate,
 * then get the best candidate. Any thread. */
struct mpib_suggest {
	const char *typed, *best;
	unsigned distance;
};

void mpib_suggest_try(struct mpib_suggest *s, const char *candidate);
/* Return NULL if no candidate is similar enough. */
const char *mpib_suggest_best(const struct mpib_suggest *s);
/* Write "did you mean NAME?" to buf and return buf, or return `otherwise` if no
 * candidate is similar enough. */
const char *mpib_suggest_remedy(const struct mpib_suggest *s,
				const char *otherwise, char *buf, size_t len);

/* Return the word that getopt_long() has just rejected. `shorts` contains the
 * known option letters. */
const char *mpib_option_word(char **argv, const char *shorts);

#endif
