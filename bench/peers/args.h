/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of the small programs here, whose arguments are words. */
#ifndef PEER_ARGS_H
#define PEER_ARGS_H

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

#endif
