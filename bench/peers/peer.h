/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that the small programs in bench/ share: command lines, memory, a clock,
 * and results. A command line consists of words; the only options are --help
 * and --version. A result is one line "metric value", and the commands in
 * bench/ collect these lines.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

/* Print "program: command line: what (see --help)" on stderr; exit with 2. */
void peer_wrong(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * Check the command line. Return only if it has `min` to `max` words;
 * otherwise answer --help or --version, or refuse the command line, and exit.
 * `words` follows the program's name in the usage text.
 */
void peer_args(int argc, char **argv, int min, int max, const char *words);

/*
 * peer_size() parses a whole number from `lo` to `hi`, such as "64", "512K",
 * "4M" or "1G". peer_number() parses a number above 0, with or without a point.
 * For other text they print a line, in which `what` names the argument, and end
 * the program.
 */
uint64_t peer_size(const char *what, const char *text, uint64_t lo,
		   uint64_t hi);
double peer_number(const char *what, const char *text);

/* Print a line on stderr and exit with 1. */
void peer_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

uint64_t peer_ns(void);

/* Allocate zeroed memory that is shared with children forked later. */
void *peer_shared(size_t bytes);

void peer_say(const char *metric, double value);

#endif
