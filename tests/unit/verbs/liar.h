/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A liar is a socket that is not a software HCA. A liar can greet as the peer
 * of a software HCA's QP, and may then send anything.
 */
#ifndef LIAR_H
#define LIAR_H

#include "vt.h"

#include "verbs/soft/wire/soft_wire.h"

/* Return a QP of end `a` that waits for the liar to connect. */
struct ibv_qp *liar_victim(struct vt *t);
int liar_dial(struct vt *t, uint32_t qpn);
/* Return a greeting that the victim `qp` accepts. The token of the victim is
 * LIAR_TOKEN. */
#define LIAR_TOKEN 0x0102030405060708ull
struct soft_hello liar_greeting(struct vt *t, struct ibv_qp *qp);
/* Send a greeting. Return the status in the answer, or -1 if the connection is
 * closed without an answer. */
int liar_greet(struct vt *t, int fd, const struct soft_hello *h);

#endif
