/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel counts for an RDMA port, under
 * ROOT/class/infiniband/DEVICE/ports/PORT/hw_counters: a file a counter. Names
 * are the driver's.
 */
#ifndef MPIB_PROXY_VIEW_HW_H
#define MPIB_PROXY_VIEW_HW_H

#include <jansson.h>

/* {"name": n, ...}; null where there are none. root is "/sys". */
json_t *mpib_hw_counters(const char *root, const char *device, unsigned port);
/* Those that tell of packets sent again, added up; null for null. */
json_t *mpib_hw_retries(const json_t *counters);

#endif
