/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders and decoders of the parts of a message that are more than one
 * number. A decoder sets failed for values out of range.
 */
#ifndef MPIB_PEER_PART_H
#define MPIB_PEER_PART_H

#include "peer/codec.h"
#include "peer/protocol.h"

typedef void mpib_put_part(struct mpib_encoder *w,
			   const struct mpib_peer_msg *msg);
typedef void mpib_get_part(struct mpib_decoder *r, struct mpib_peer_msg *msg);

/* lane_part.c and report_part.c */
mpib_put_part mpib_put_lane, mpib_put_rail, mpib_put_report;
mpib_get_part mpib_get_lane, mpib_get_rail, mpib_get_report;

#endif
