/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test over several hosts: what mpib-perf does, and the parts of that. The
 * first four return the exit status.
 */
#ifndef PERF_HOSTS_H
#define PERF_HOSTS_H

#include "perf/hosts/link.h"
#include "perf/world.h"

/* Serve tests, several at a time, until a signal or, with --once, one test. */
int perf_serve(const struct perf_options *opt);

/* Run a test with the servers of --client, and report. */
int perf_client(const struct perf_options *opt);

/* Be one rank of a launcher; rank 0 reports. */
int perf_launched(const struct perf_options *opt);

/* Test each pair of servers, and report. */
int perf_check(const struct perf_options *opt);

/*
 * The hub of a test over several hosts: it tells the nodes what to run, lets
 * their ranks pass barriers together, hands handles around and has the results.
 * One thread, which polls the links.
 */
struct perf_hub_node {
	int fd; /* -1: none yet */
	struct perf_hello hello;
	struct perf_info info;
	struct perf_arrive arrive;
	struct perf_rails rails; /* when it said BYE */
	bool arrived, bye;
};

struct perf_hub {
	struct perf_world *w; /* results of all ranks; node -1 */
	struct perf_hub_node *node;
	int n;
	int barriers; /* passed by all */
	int reported; /* rows */
	bool quiet; /* no report while it runs */
	uint32_t
		device; /* that the nodes are to use; PERF_SETUP_OWN at first */
	struct perf_handle_msg *handle; /* until they are handed around */
	size_t nhandle, room;
};

/* For opt->nnodes nodes. NULL after a line on stderr. */
struct perf_hub *perf_hub_new(const struct perf_options *opt);
void perf_hub_free(struct perf_hub *h);

/* Wait for HELLO on fd, which is closed if it is not that of a node of this
 * job. Who is node i, or the launcher's rank if i is -1, has fd from now on.
 * Returns the node, or -errno after a line on stderr. */
int perf_hub_greet(struct perf_hub *h, int fd, int i);

/* Run the test with all nodes greeted. 0, or -errno after a line on stderr. */
int perf_hub_run(struct perf_hub *h);

/* End a steady run early, whose figures so far are then reported. Says whether
 * this was a steady run and the first call. Async-signal-safe. */
static inline bool perf_hub_enough(struct perf_hub *h)
{
	return h->w->opt.steady_seconds > 0 &&
	       !atomic_exchange(&h->w->enough, true);
}

/*
 * Say HELLO on fd, take the test that the hub asks for, fork its ranks and
 * carry their barriers, handles, results and failures until they end. own are
 * the options of this host; what the load is comes from the hub. Closes fd.
 * Returns 0, or -errno after a line on stderr.
 */
int perf_node_run(int fd, const struct perf_options *own);

/* Write the run dir that the ranks of this host use; "" if its path is too
 * long. */
void perf_node_run_dir(const struct perf_options *own, char *buf, size_t len);

/* Write where the proxy of a run dir takes peer links, "ADDRESS:PORT", into
 * buf. False: there is no proxy. */
bool perf_rails_peer_link(const char *run_dir, char *buf, size_t len);

/* The findings of mpib-perf check about a pair of hosts, for one device of
 * each. */
struct perf_verdict {
	int host[2]; /* indices of opt->hosts */
	int device; /* its index at both; -1: the test failed at once */
	int devices[2]; /* how many each host has */
	bool ran; /* false: the test failed, stderr says why */
	uint64_t wrong; /* messages */
	double p50_us, p99_us; /* of small messages, one way */
	double busbw; /* GB/s each way at once */
	double seconds; /* of the test of speed */
	int speed_mbps[2]; /* by the plugin */
	struct perf_rails rails[2]; /* since the test of speed began */
};

/* Write what is wrong, a line each; median is the busbw of all pairs with this
 * device, 0 for none. Returns how many, at most max. */
#define PERF_FAULT_LEN 200
int perf_verdict_faults(const struct perf_options *opt,
			const struct perf_verdict *v, double median,
			char text[][PERF_FAULT_LEN], int max);

#endif
