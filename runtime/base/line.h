/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /proc and /sys that say one thing each. */
#ifndef MPIB_BASE_LINE_H
#define MPIB_BASE_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Read the first line of the file that fmt names into buf, without its newline.
 * False, and "" in buf, when the file cannot be read or is empty. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
