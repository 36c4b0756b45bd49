/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_STUCK_H
#define MPIB_CTL_STUCK_H

#include <jansson.h>
#include <stdio.h>

/* A view as in views.h: requests that have been in flight for too long. */
void mpib_ctl_print_stuck(const json_t *data, unsigned width, FILE *out);

#endif
