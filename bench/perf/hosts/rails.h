/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the proxy of this host for its rails. */
#ifndef PERF_RAILS_H
#define PERF_RAILS_H

#include <stdbool.h>

#include "perf/hosts/link.h"

/* Ask the proxy of a run dir for the rails of a device, by its index. Without a
 * proxy, as under another plugin, there are no rails. */
void perf_rails_read(struct perf_rails *rails, const char *run_dir,
		     unsigned device);

/* Write "ADDRESS:PORT" of the peer link of a run dir's proxy into buf. False:
 * no proxy. */
bool perf_rails_peer_link(const char *run_dir, char *buf, size_t len);

/* Subtract the counts of *before from those of *now. A rail that is not in
 * *before counts from 0. */
void perf_rails_since(struct perf_rails *now, const struct perf_rails *before);

#endif
