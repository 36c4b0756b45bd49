/* SPDX-License-Identifier: Apache-2.0 */
/* Records which client each thread of the proxy works for, to identify a client
 * whose requests crash the proxy. */
#ifndef MPIB_BASE_CRASH_H
#define MPIB_BASE_CRASH_H

#include <signal.h>
#include <stdint.h>

/* id of the client; 0: none. */
extern _Thread_local volatile uint32_t mpib_works_for;

/* Async-signal-safe. */
typedef void mpib_crash_fn(void *arg, uint32_t client);

/* Call fn() when the process ends by a fault or by abort() in a thread that
 * works for a client. Call this function once, from a program and not from the
 * library. */
void mpib_crash_catch(mpib_crash_fn *fn, void *arg);
/* Report a crash. Call this from signal handlers that then let the process end.
 * Ignores signals that another process sent. */
void mpib_crash_note(const siginfo_t *info);

#endif
