/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of programs whose rounds are drawn by chance:
 *
 *   [-n rounds] [-s seed] [-c connections] [-p] [-a] [-m spread] [-w]
 *
 * -p: private lanes; -a: in adaptive mode; -w: a send ends when it is acknowledged.
 */
#ifndef DRAWN_H
#define DRAWN_H

#include <stdbool.h>

#include "engine/engine.h"

struct drawn {
	unsigned rounds, seed, conns;
	bool private_lanes; /* -p */
	struct mpib_engine_config cfg; /* usual, but for -a, -m and -w */
};

/* rounds: unless told. False: there are others. */
bool drawn_args(struct drawn *d, unsigned rounds, int argc, char **argv);

#endif
