/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_WEB_STATS_JSON_H
#define MPIB_WEB_STATS_JSON_H

#include "view/view.h"

/*
 * What the commands of the stats socket answer, in one object: {"time": seconds
 * of the epoch, "info": ..., "rails": ..., "clients": ..., ...}. To be freed,
 * NULL when memory is short. Control thread.
 */
char *mpib_stats_json(const struct mpib_view *v);

#endif
