/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a message that are more than one number. Reading fails for values
 * out of range.
 */
#ifndef MPIB_PEER_PART_H
#define MPIB_PEER_PART_H

#include "peer/codec.h"
#include "peer/protocol.h"

typedef void mpib_code_part(struct mpib_codec *c, struct mpib_peer_msg *m);

/* lane_part.c and report_part.c */
mpib_code_part mpib_code_lane, mpib_code_rail, mpib_code_report;

/* protocol.c: n bytes of text. What is read ends up in logs and in JSON: no control
 * characters, which a terminal would obey, and nothing but ASCII. */
void mpib_code_text(struct mpib_codec *c, char *text, size_t n);

#endif
