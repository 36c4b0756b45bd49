/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_WEB_STATS_JSON_H
#define MPIB_WEB_STATS_JSON_H

#include "view/view.h"

/*
 * The answers of several stats socket commands in one JSON object: {"time":
 * seconds since the epoch, "info": ..., "rails": ..., "clients": ..., ...}. The
 * caller frees the text; NULL when memory is short. Control thread.
 */
char *mpib_stats_json(const struct mpib_view *v);
/* The last hour, as text that the caller frees; NULL: no memory. */
char *mpib_history_json(const struct mpib_view *v);

#endif
