/* SPDX-License-Identifier: Apache-2.0 */
/* A send op: what a sender posted in one step, a chain of WRs on each rail, and
 * the ranges that it consists of. Shard thread. */
#ifndef MPIB_ENGINE_CONN_SEND_OP_H
#define MPIB_ENGINE_CONN_SEND_OP_H

#include <mpib/abi.h>

#include "engine/split/adapt.h"
#include "failover/stripes.h"

struct mpib_mr;

/* Most in flight: a request that is not staged needs one send op and one range,
 * and a connection has MPIB_REQUESTS of them. */
#define SEND_OPS MPIB_REQUESTS
#define SEND_OP_RANGES SEND_OPS

/* Bytes of one request in a send op: their source and destination, kept so that
 * a replay can post them again. */
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
	struct mpib_stripes c; /* stripe k: the part first given to rail k */
	uint8_t n; /* ranges in mpib_sender.op_range, one after the other */
	bool report; /* one of its requests has a report */
	/* Counts like op_range_head, does not wrap at SEND_OP_RANGES. */
	uint32_t first;
	struct mpib_stripe stripe[MPIB_RAILS];
	uint64_t slot;
	int64_t before; /* from mpib_adapt_posted() */
};

/* Return the entries of mpib_sender.op_range that it uses, at least one: so send
 * ops never run out before entries do. */
static inline uint32_t send_op_takes(unsigned ranges)
{
	return ranges ? ranges : 1;
}

/* Return the index of range i in mpib_sender.op_range. */
static inline uint32_t send_op_index(const struct send_op *op, unsigned i)
{
	return (op->first + i) % SEND_OP_RANGES;
}

#endif
