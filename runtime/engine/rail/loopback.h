/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's loop-back QPs, one per rail. Such a QP is connected to itself. A
 * loop-back QP reads back data that the rail's HCA wrote into a dma-buf region,
 * such as GPU memory. On PCIe a read never overtakes earlier writes, so when a
 * READ has completed, the earlier writes are in memory. The control thread
 * creates the QPs when the tenant registers its first dma-buf region, and
 * replaces a QP that the shard reports as broken.
 */
#ifndef MPIB_ENGINE_LOOPBACK_H
#define MPIB_ENGINE_LOOPBACK_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_mr;
struct ibv_qp;
struct mpib_tenant;

#define MPIB_LOOPBACK_DEPTH 32u

struct mpib_loopback {
	/* The shard owns the QP while `usable` is set. Otherwise the control
	 * thread owns it. */
	struct ibv_qp *qp;
	/* destination of the READs; control thread */
	struct ibv_mr *mr;
	/* Shard. */
	bool usable;
	bool asked; /* the control thread is making a new QP */
	uint64_t asked_ns; /* time of that request */
	uint32_t inflight; /* READs that have not completed */
};

/* Control thread. Create the missing QPs on every rail that is not away. On
 * failure return -errno and set a last error. */
int mpib_loopback_make(struct mpib_tenant *t);
void mpib_loopback_free(struct mpib_tenant *t);

/* This and all functions below: shard thread. Post a READ of one byte at
 * `addr`. Return false if the QP or the CQ is full, or if there is no working
 * QP. If no QP works, request a new one. */
bool mpib_loopback_read(struct mpib_tenant *t, unsigned rail, uint64_t wr_id,
			uint64_t addr, uint32_t rkey);
/* Handle the completion of a READ. After a failure, all other READs in flight
 * also fail. */
void mpib_loopback_over(struct mpib_tenant *t, unsigned rail, bool ok);
/* Handle the loss of the rail's device: its READs never complete. */
void mpib_loopback_lost(struct mpib_tenant *t, unsigned rail);

#endif
