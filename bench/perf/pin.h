/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PIN_H
#define PERF_PIN_H

/*
 * Pin this process, and the threads that it creates from now on, to a part of
 * the CPUs that it may use: number `place` of `shares` equal parts, each at
 * least one CPU. With more shares than CPUs, processes share CPUs. 0 or -errno.
 */
int perf_pin(int place, int shares);

#endif
