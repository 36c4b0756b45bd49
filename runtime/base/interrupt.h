/* SPDX-License-Identifier: Apache-2.0 */
/* Waits in the kernel that are to end, whatever they are for. */
#ifndef MPIB_BASE_INTERRUPT_H
#define MPIB_BASE_INTERRUPT_H

#include <time.h>

/* Interrupt whatever the calling thread waits for, each ms, until timer_delete(), which
 * is the caller's. By SIGURG, which the program can have no other use for. -errno, of
 * which the first is logged. */
int mpib_interrupts_begin(timer_t *timer);

#endif
