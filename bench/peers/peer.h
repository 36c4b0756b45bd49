/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the small programs in bench/ share: their command lines, which are words
 * and no options but --help and --version; memory, a clock, and results. A
 * result is one line "metric value"; the commands in bench/ collect these lines.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

/* Print "program: command line: what (see --help)" on stderr; exit with 2. */
void peer_wrong(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * Returns only if there are min to max words. Otherwise it answers --help or
 * --version or refuses the command line, and exits. words is what follows the
 * program's name in the usage text.
 */
void peer_args(int argc, char **argv, int min, int max, const char *words);

/*
 * peer_size() parses a whole number from lo to hi, such as "64", "512K", "4M"
 * or "1G"; peer_number() a number above 0, with or without a point. Other text
 * ends the program with a line in which `what` names the argument.
 */
uint64_t peer_size(const char *what, const char *text, uint64_t lo,
		   uint64_t hi);
double peer_number(const char *what, const char *text);

/* Print a line on stderr and exit with 1. */
void peer_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

uint64_t peer_ns(void);

/* Zeroed memory that is shared with children forked later. */
void *peer_shared(size_t bytes);

void peer_say(const char *metric, double value);

#endif
