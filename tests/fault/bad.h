/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that should take over from a proxy and does not: it goes as far as
 * the file "bad" beside the run directory says.
 */
#ifndef MPIB_TESTS_BAD_H
#define MPIB_TESTS_BAD_H

#include <sys/types.h>

/*
 * As a proxy with these arguments, and with sock for its channel; returns its exit
 * status. "base", "ready", "clients", "mapped", "state", "prepared" and "go" end it
 * behind that message, "refuse" refuses. "traced" writes its number to "pid"
 * beside "bad", refuses once somebody traces it, and has to be killed.
 */
int bad_successor(int argc, char **argv, int sock);

/* The process of "traced", once for each; 0: none has written its number. */
pid_t bad_pid(const char *base);

#endif
