/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attack takes of the CPU, and processes that take as much of it and do
 * nothing else. A call that fails ends the test.
 */
#ifndef MPIB_TESTS_LOAD_H
#define MPIB_TESTS_LOAD_H

#include <stdint.h>

struct load {
	/* CPU time, and how often who took it waited for something: of children
	 * that have ended, as attackers have in the end; of two proxies, beside
	 * moving messages. */
	struct load_part {
		uint64_t us, waits;
	} children, proxies;
};

/* So far, with the proxies of these run directories. */
void load_taken(struct load *load, const char *dir, const char *other);
void load_less(struct load *load, const struct load *by);
/* Start processes that take as much in ms, each time for as long; end them. */
void load_begin(const struct load *load, uint64_t ms);
void load_end(void);

#endif
