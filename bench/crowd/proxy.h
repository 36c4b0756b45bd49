/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the proxy that is measured: its threads' CPU time and its
 * memory of the kernel, its rails of its admin socket. A question without an
 * answer ends the program. */
#ifndef BENCH_CROWD_PROXY_H
#define BENCH_CROWD_PROXY_H

#include <sys/types.h>

struct crowd_proxy {
	pid_t pid;
	int admin; /* socket */
};

/* Seconds since the threads began. */
struct crowd_cpu {
	double control, shards;
};

struct crowd_memory {
	double anon,
		shared; /* resident bytes; shared has clients' pages, too */
};

/* Of the lanes of all rails, since the proxy began. */
struct crowd_rails {
	unsigned failovers, failbacks;
};

void crowd_proxy_open(struct crowd_proxy *p, const char *run_dir);
struct crowd_cpu crowd_cpu(const struct crowd_proxy *p);
struct crowd_memory crowd_memory(const struct crowd_proxy *p);
/* A command of mpibctl; dies unless it is obeyed. */
void crowd_order(const struct crowd_proxy *p, const char *command);
struct crowd_rails crowd_rails(const struct crowd_proxy *p);
/* Ask how all nodes are. How many answered, its own among them. */
unsigned crowd_cluster(const struct crowd_proxy *p);

#endif
