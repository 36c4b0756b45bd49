/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PIN_H
#define PERF_PIN_H

/*
 * Pin this process, and the threads that it creates later, to a part of the
 * CPUs that it may use. The part is number `place` of `shares` equal parts,
 * each at least one CPU. If there are fewer CPUs than parts, processes share
 * CPUs. Returns 0 or -errno.
 */
int perf_pin(int place, int shares);

#endif
