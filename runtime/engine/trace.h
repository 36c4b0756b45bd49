/* SPDX-License-Identifier: Apache-2.0 */
/* USDT probes of provider "mpib" (docs/tracing.md). A probe that is not armed
 * is a single nop. Without <sys/sdt.h> there are no probes. */
#ifndef MPIB_ENGINE_TRACE_H
#define MPIB_ENGINE_TRACE_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#define MPIB_HAVE_SDT 1
#endif
#endif

#ifdef MPIB_HAVE_SDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define MPIB_TRACE(...) STAP_PROBEV(mpib, __VA_ARGS__)
#else
/* Evaluate no argument, but make the compiler treat all arguments as used. The
 * first argument, the probe's name, is dropped. */
#define MPIB_TRACE(...)                                                        \
	((void)sizeof(mpib_trace_nothing(0, MPIB_TRACE_ARGS(__VA_ARGS__))))
#define MPIB_TRACE_ARGS(name, ...) __VA_ARGS__
int mpib_trace_nothing(int n, ...);
#endif

#endif
