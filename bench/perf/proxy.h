/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about the proxy of a run directory, which is found by
 * its file proxy.pid. Negative when there is no such process.
 */
#ifndef PERF_PROXY_H
#define PERF_PROXY_H

/* User and system seconds. */
double perf_proxy_seconds(const char *run_dir);
/* Resident bytes, including shared memory. */
double perf_proxy_resident(const char *run_dir);

#endif
