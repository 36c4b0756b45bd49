/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about the measured proxy: the kernel has the CPU time of its threads
 * and its memory, its admin socket has its rails. A question without an answer
 * ends the program. */
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

/* Sums over the lanes of all rails, since the proxy started. */
struct crowd_rails {
	unsigned failovers, failbacks;
};

void crowd_proxy_open(struct crowd_proxy *p, const char *run_dir);
struct crowd_cpu crowd_cpu(const struct crowd_proxy *p);
struct crowd_memory crowd_memory(const struct crowd_proxy *p);
/* Run a command of mpibctl; a failure ends the program. */
void crowd_order(const struct crowd_proxy *p, const char *command);
struct crowd_rails crowd_rails(const struct crowd_proxy *p);
/* Ask for the state of all nodes. Returns how many answered, with its own. */
unsigned crowd_cluster(const struct crowd_proxy *p);

#endif
