/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of programs whose rounds are drawn by chance:
 *
 *   [-n rounds] [-s seed] [-p] [-a] [-m spread]
 *
 * -a: in adaptive mode.
 */
#ifndef DRAWN_H
#define DRAWN_H

#include <stdbool.h>

#include "engine/engine.h"

struct drawn {
	unsigned rounds, seed;
	bool private_lanes; /* -p */
	struct mpib_engine_config cfg; /* usual, but for -m */
};

/* False: there are others. */
bool drawn_args(struct drawn *d, int argc, char **argv);

#endif
