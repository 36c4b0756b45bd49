/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PIN_H
#define PERF_PIN_H

/*
 * Keep this process, and the threads that it makes from now on, to the place-th
 * of so many equal shares of the CPUs that it may use, at least one. Beyond
 * their number CPUs are shared. 0 or -errno.
 */
int perf_pin(int place, int shares);

#endif
