/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H

#include "perf/world.h"

/* Write the file of --plot: an SVG of bus bandwidth, or in pingpong of latency,
 * over the size of messages. False after a line on stderr. */
bool perf_plot(const struct perf_world *w);

#endif
