/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which client a thread of the proxy works for, so that one whose requests crash the
 * proxy can be told from others.
 */
#ifndef MPIB_BASE_CRASH_H
#define MPIB_BASE_CRASH_H

#include <signal.h>
#include <stdint.h>

/* Its id; 0: none. */
extern _Thread_local volatile uint32_t mpib_works_for;

/* Async-signal-safe. */
typedef void mpib_crash_fn(void *arg, uint32_t client);

/* Have fn called when the process ends by a fault of its own, or by abort(), in a
 * thread that works for a client. Once, by a program and not by the library. */
void mpib_crash_catch(mpib_crash_fn *fn, void *arg);
/* In a signal handler that lets the process end. What another process sent is no
 * crash. */
void mpib_crash_note(const siginfo_t *info);

#endif
