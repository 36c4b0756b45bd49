/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an RC QP from RESET until it can send. */
#ifndef MPIB_VERBS_CONNECT_H
#define MPIB_VERBS_CONNECT_H

#include "verbs/verbs.h"

/* RESET to INIT. 0 or -errno, as the next. */
int mpib_qp_init(const struct mpib_verbs *v, struct ibv_qp *qp, uint8_t port,
		 uint16_t pkey_index, int access);
/* INIT to RTR and RTS: attr says with which path, peer, numbers and patience; its
 * state and its READs at once, one, are set here. */
int mpib_qp_connect(const struct mpib_verbs *v, struct ibv_qp *qp,
		    struct ibv_qp_attr *attr);
/* The path from a port to itself. */
struct ibv_ah_attr mpib_path_to_self(const struct mpib_port_info *port,
				     uint8_t number, uint8_t service_level);

#endif
