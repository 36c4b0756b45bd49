/* SPDX-License-Identifier: Apache-2.0 */
/* What the proxy of this host says of its rails. */
#ifndef PERF_RAILS_H
#define PERF_RAILS_H

#include <stdbool.h>

#include "perf/hosts/link.h"

/* Ask the proxy of a run dir for the rails of a device, by its index. Without a
 * proxy, as under another plugin, there are no rails. */
void perf_rails_read(struct perf_rails *rails, const char *run_dir,
		     unsigned device);

/* Write where the proxy of a run dir takes peer links, "ADDRESS:PORT", into
 * buf. False: there is no proxy. */
bool perf_rails_peer_link(const char *run_dir, char *buf, size_t len);

/* Make the counts of *now those since *before. A rail that is not in *before
 * counts from 0. */
void perf_rails_since(struct perf_rails *now, const struct perf_rails *before);

#endif
