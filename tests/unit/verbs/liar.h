/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket that is no software HCA, but knows how to greet one as the peer of a
 * QP of it, and may then say what it likes.
 */
#ifndef LIAR_H
#define LIAR_H

#include "vt.h"

#include "verbs/soft/wire/soft_wire.h"

/* A QP at end a that awaits it. */
struct ibv_qp *liar_victim(struct vt *t);
int liar_dial(struct vt *t, uint32_t qpn);
/* What the victim takes for a greeting; its owner was told of LIAR_TOKEN. */
#define LIAR_TOKEN 0x0102030405060708ull
struct soft_hello liar_greeting(struct vt *t, struct ibv_qp *qp);
/* The status of the answer; -1: the connection ends without one. */
int liar_greet(struct vt *t, int fd, const struct soft_hello *h);

#endif
