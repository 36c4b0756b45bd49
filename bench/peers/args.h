/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of the small programs in bench/: words, and no options but
 * --help and --version. */
#ifndef PEER_ARGS_H
#define PEER_ARGS_H

#include <stdint.h>

/* Print "program: command line: what (see --help)" on stderr; exit with 2. */
void peer_wrong(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/* Print "program version" on stdout; exit with 0. */
void peer_version(void) __attribute__((noreturn));

/*
 * Returns only if there are min to max words. Otherwise it answers --help or
 * --version or refuses the command line, and exits. words is the usage text: a
 * line for each form of what follows the program's name.
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

#endif
