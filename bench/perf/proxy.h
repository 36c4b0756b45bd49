/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time and memory of a run directory's proxy, from the kernel. The file
 * proxy.pid names the process. Negative: no such process.
 */
#ifndef PERF_PROXY_H
#define PERF_PROXY_H

/* User and system seconds. */
double perf_proxy_seconds(const char *run_dir);

#endif
