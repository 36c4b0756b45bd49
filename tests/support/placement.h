/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a device of the software HCA places the bytes of incoming WRITEs in
 * memory. A test that uses this must be linked with
 * --wrap=soft_mr_remote,--wrap=soft_recv_take.
 */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum placement {
	PLACED,
	/* WRITEs into regions with remote read access are acknowledged and
	 * completed, but their bytes are placed only when this device answers a
	 * READ, as on PCIe to a GPU. */
	LATE,
	/* WRITEs are acknowledged, but neither placed nor completed, as if the
	 * device failed between the ack and the placement. */
	FORGOTTEN,
};

void placement_set(struct ibv_context *ctx, enum placement how);
/* Return whether device `ctx` has acknowledged bytes that it has not placed. */
bool placement_waits(const struct ibv_context *ctx);
/* Let all devices place bytes again, and drop the bytes that are not placed. */
void placement_end(void);

#endif
