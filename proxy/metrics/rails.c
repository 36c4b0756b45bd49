/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of what is known of rails without a snapshot. */
#include "metrics/families.h"

void mpib_rail_sample(const struct mpib_exposition *m, unsigned rail,
		      uint64_t n)
{
	struct mpib_label label[MPIB_RAIL_LABELS];

	mpib_sample(m, label, mpib_rail_labels(m, rail, label), n);
}

void mpib_fill_rail_standby(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		mpib_rail_sample(m, r, m->view->rail[r].standby);
}

void mpib_fill_rail_speed(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		mpib_rail_sample(m, r,
				 m->view->snap->rail[r].speed_mbps * 125000);
}

void mpib_fill_rail_expected(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		mpib_rail_sample(m, r,
				 m->view->cfg->expected_gbps *
					 UINT64_C(125000000));
}
