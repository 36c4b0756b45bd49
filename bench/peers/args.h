/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of the small programs here, whose arguments are words. */
#ifndef PEER_ARGS_H
#define PEER_ARGS_H

#include <stdint.h>

/* One line, "program: command line: what (see --help)"; exits with 2. */
void peer_wrong(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/* "program version" to stdout; exits with 0. */
void peer_version(void) __attribute__((noreturn));

/*
 * Returns when there are min to max words. Answers --help and --version, and
 * refuses other options and numbers of words: then it does not return. words is
 * what follows the program's name, a line for each way.
 */
void peer_args(int argc, char **argv, int min, int max, const char *words);

/*
 * "64", "512K", "4M", "1G": a whole number from lo to hi, of bytes or of
 * anything else, and a number above 0 of digits and perhaps a point. Anything
 * else does not return: what names it there.
 */
uint64_t peer_size(const char *what, const char *text, uint64_t lo,
		   uint64_t hi);
double peer_number(const char *what, const char *text);

#endif
