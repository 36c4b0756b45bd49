/* SPDX-License-Identifier: Apache-2.0 */
#include "drawn.h"
#include "arg.h"
#include "engine/split/mode.h"
#include "traffic.h"

#include <unistd.h>

bool drawn_args(struct drawn *d, unsigned rounds, int argc, char **argv)
{
	int opt;

	*d = (struct drawn){ .rounds = rounds,
			     .seed = 1,
			     .conns = TRAFFIC_CONNS };
	mpib_engine_config_init(&d->cfg);
	while ((opt = getopt(argc, argv, "n:s:c:m:paw")) != -1) {
		if (opt == 'n')
			d->rounds = arg_count(optarg);
		else if (opt == 's')
			d->seed = arg_count(optarg);
		else if (opt == 'c')
			d->conns = arg_count(optarg);
		else if (opt == 'm')
			d->cfg.spread = arg_count(optarg);
		else if (opt == 'p')
			d->private_lanes = true;
		else if (opt == 'a')
			d->cfg.mode = MPIB_MODE_ADAPTIVE;
		else if (opt == 'w')
			d->cfg.completion = MPIB_COMPLETION_WIRE;
		else
			return false;
	}
	return true;
}
