/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that srun, mpirun or torchrun started. */
#ifndef PERF_LAUNCHER_H
#define PERF_LAUNCHER_H

#include "perf/options.h"

/*
 * If a launcher's environment names one rank of several, set role, rank,
 * nnodes, job and the host of rank 0. Ignore the environment with --launcher
 * none, or if an option sets the number of ranks on this host. 0, or -EINVAL
 * after a line on stderr.
 */
int perf_launcher_find(struct perf_options *opt);

/* The first host of a Slurm node list: "a[03-05,9],b" gives "a03". False if
 * that is none or longer than len. */
bool perf_launcher_first(const char *list, char *host, size_t len);

#endif
