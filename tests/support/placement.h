/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control when a device of the software HCA writes the bytes of incoming WRITEs
 * to memory. A test that uses this must be linked with
 * --wrap=soft_mr_remote,--wrap=soft_recv_take.
 */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum placement {
	PLACED,
	/* The device acknowledges and completes WRITEs into regions with remote
	 * read access, but writes their bytes to memory only when it answers a
	 * READ, as a device that writes to a GPU over PCIe may do. */
	LATE,
	/* The device acknowledges WRITEs, but neither writes their bytes to
	 * memory nor completes a receive, as if it failed after the ack. */
	FORGOTTEN,
};

void placement_set(struct ibv_context *ctx, enum placement how);
/* Return whether device `ctx` has acknowledged bytes that it has not written to
 * memory yet. */
bool placement_waits(const struct ibv_context *ctx);
/* Let all devices write bytes to memory immediately again, and drop the bytes
 * that they still hold. */
void placement_end(void);

#endif
