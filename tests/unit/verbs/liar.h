/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket that is not a software HCA. It can send a greeting as the peer of
 * one of a software HCA's QPs, and may then send anything.
 */
#ifndef LIAR_H
#define LIAR_H

#include "vt.h"

#include "verbs/soft/wire/soft_wire.h"

/* Return a QP of end a that waits for its peer. */
struct ibv_qp *liar_victim(struct vt *t);
int liar_dial(struct vt *t, uint32_t qpn);
/* Return a greeting that the victim accepts. The victim's QP has the token
 * LIAR_TOKEN. */
#define LIAR_TOKEN 0x0102030405060708ull
struct soft_hello liar_greeting(struct vt *t, struct ibv_qp *qp);
/* Send a greeting. Return the status in the answer, or -1 if the connection
 * ends without one. */
int liar_greet(struct vt *t, int fd, const struct soft_hello *h);

#endif
