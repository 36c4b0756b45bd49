/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send op: what a sender posted in one step, a chain of WRs on each rail, and
 * the ranges that it was made of. Shard thread.
 */
#ifndef MPIB_ENGINE_CONN_SEND_OP_H
#define MPIB_ENGINE_CONN_SEND_OP_H

#include <mpib/abi.h>

#include "engine/split/adapt.h"
#include "failover/stripes.h"

struct mpib_mr;

/* In flight at once: a send op and one range are enough for a request that is
 * not staged, and a connection has MPIB_REQUESTS of them. */
#define SEND_OPS MPIB_REQUESTS
#define SEND_SHARES SEND_OPS

/* Bytes of one request in a send op: where they lie and where they go, kept so
 * that a replay can post them again. */
struct op_range {
	struct mpib_mr *mr; /* NULL when len is 0 */
	uint64_t from;
	uint32_t at; /* offset from the address in the CTS */
	uint32_t len;
	uint32_t sup; /* the first sup bytes go by SUP, the rest by SOUT */
	uint8_t req;
	uint8_t buf; /* buffer of the group */
};

struct send_op {
	struct mpib_stripes c; /* stripe k is what rail k was given */
	uint8_t n; /* its ranges in mpib_sender.share, which follow one another */
	bool report; /* some of its requests is reported */
	uint32_t first; /* counts as share_head, does not wrap at SEND_SHARES */
	struct mpib_stripe stripe[MPIB_RAILS];
	uint64_t slot;
	int64_t before; /* as mpib_adapt_posted() said */
};

/* Entries of mpib_sender.share that it takes: no op takes none, so that there are
 * send ops enough while there are entries. */
static inline uint32_t send_op_takes(unsigned ranges)
{
	return ranges ? ranges : 1;
}

/* Where range i of it lies in mpib_sender.share. */
static inline uint32_t send_op_index(const struct send_op *op, unsigned i)
{
	return (op->first + i) % SEND_SHARES;
}

#endif
