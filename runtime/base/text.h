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

#endif
