/* SPDX-License-Identifier: Apache-2.0 */
#include "drawn.h"
#include "arg.h"
#include "engine/split/policy.h"

#include <stdlib.h>
#include <unistd.h>

bool drawn_args(struct drawn *d, int argc, char **argv)
{
	int opt;

	*d = (struct drawn){ .rounds = 20, .seed = 1 };
	mpib_engine_config_init(&d->cfg);
	while ((opt = getopt(argc, argv, "n:s:m:pa")) != -1) {
		if (opt == 'n')
			d->rounds = arg_count(optarg);
		else if (opt == 's')
			d->seed = arg_count(optarg);
		else if (opt == 'm')
			d->cfg.spread = arg_count(optarg);
		else if (opt == 'p')
			d->private_lanes = true;
		else if (opt == 'a')
			d->cfg.mode = MPIB_MODE_ADAPTIVE;
		else
			return false;
	}
	return true;
}
