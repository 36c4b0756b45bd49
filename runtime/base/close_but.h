/* SPDX-License-Identifier: Apache-2.0 */
/* Closing nearly all descriptors. */
#ifndef MPIB_BASE_CLOSE_BUT_H
#define MPIB_BASE_CLOSE_BUT_H

#include <stddef.h>

/* Close all descriptors from 3 on but these n, in any order, which are sorted; -1 is
 * none. Any thread, while no other opens one. */
void mpib_close_but(int *stay, size_t n);

#endif
