/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node is taken over, as by another process: everything goes through a serialized state
 * into an engine and a broker that were opened for it, with regions, tables and
 * QPs of their own, and what was before is closed. The node's shards are
 * halted, before and after, and its control thread is the caller.
 */
#ifndef MPIB_TESTS_FAULT_HEIR_H
#define MPIB_TESTS_FAULT_HEIR_H

#include "nodes.h"

/* After mpib_engine_left() and mpib_broker_quiescent(). Its peer is told. */
void node_hand_over(struct node *node, size_t mem);

#endif
