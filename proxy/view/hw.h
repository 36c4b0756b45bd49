/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of an RDMA port: one file per counter in hw_counters, the driver's, and
 * counters, those of all ports, of ROOT/class/infiniband/DEVICE/ports/PORT.
 */
#ifndef MPIB_PROXY_VIEW_HW_H
#define MPIB_PROXY_VIEW_HW_H

#include <jansson.h>

/* All counters, {"name": n, ...}, under the driver's names; JSON null where the
 * port has none. root is "/sys", or a test's directory. */
json_t *mpib_hw_counters(const char *root, const char *device, unsigned port);
/* The sum of the counters of retransmissions; JSON null if counters is null. */
json_t *mpib_hw_retries(const json_t *counters);

#endif
