/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests over several hosts. Each of the first four functions is one role of
 * mpib-perf, and returns the exit status. These roles share the other
 * functions.
 */
#ifndef PERF_HOSTS_H
#define PERF_HOSTS_H

#include "perf/hosts/link.h"
#include "perf/world.h"

/* Serve tests, several at a time, until a signal arrives. With --once, serve
 * one test. */
int perf_serve(const struct perf_options *opt);

/* Run a test with the servers of --client, and print the report. */
int perf_client(const struct perf_options *opt);

/* Run as one rank of a launcher. Rank 0 prints the report. */
int perf_launched(const struct perf_options *opt);

/* Test each pair of servers, and print the report. */
int perf_check(const struct perf_options *opt);

/*
 * The hub of a test over several hosts. The hub sends the test to the nodes,
 * lets their ranks pass barriers together, distributes handles and collects the
 * results. The hub has one thread, which polls the links.
 */
struct perf_hub_node {
	int fd; /* -1: none yet */
	const char *given; /* name or address that the user gave, or NULL */
	struct perf_hello hello;
	struct perf_info info;
	struct perf_arrive arrive;
	struct perf_rails rails; /* rails of the node, received with its BYE */
	bool arrived, bye;
};

struct perf_hub {
	struct perf_world *w; /* results of the ranks of all nodes */
	struct perf_hub_node *node;
	int n;
	int barriers; /* number of barriers that all ranks have passed */
	int reported; /* number of reported rows */
	bool quiet; /* print no report while the test runs */
	/* Index of the device that all nodes test. If it is PERF_SETUP_OWN,
	 * each node tests the device that it chose itself. */
	uint32_t device;
	struct perf_handle_msg *handle; /* handles to distribute to the nodes */
	size_t nhandle, room;
};

/* Make a hub for opt->nnodes nodes. On failure, print a line to stderr and
 * return NULL. */
struct perf_hub *perf_hub_new(const struct perf_options *opt);
void perf_hub_free(struct perf_hub *h);

/* Wait on `fd` for the HELLO of node `i`. If `i` is -1, the HELLO names the
 * node. `given`: the name by which the user called the node, or NULL. The hub
 * owns `fd` from this call on, and closes it if the HELLO is not from a node of
 * this job. Returns the node's number, or -errno after a line on stderr. */
int perf_hub_greet(struct perf_hub *h, int fd, int i, const char *given);

/* Run the test, after all nodes were greeted. Returns 0, or -errno after a line
 * on stderr. */
int perf_hub_run(struct perf_hub *h);

/* End a steady run early. The results so far are reported. Returns true if this
 * is a steady run and the first call. Async-signal-safe. */
static inline bool perf_hub_enough(struct perf_hub *h)
{
	return h->w->opt.steady_seconds > 0 &&
	       !atomic_exchange(&h->w->enough, true);
}

/*
 * Send HELLO on `fd`, receive the test from the hub, and fork the ranks of the
 * test. Until the ranks end, pass their barriers, handles, results and failures
 * to the hub and back. `own` has the options of this host; the hub sends the
 * options of the test. Closes fd. Returns 0, or -errno after a line on stderr.
 */
int perf_node_run(int fd, const struct perf_options *own);

/* Write to `buf` the run dir that the ranks of this host use, or "" if its path
 * is too long. */
void perf_node_run_dir(const struct perf_options *own, char *buf, size_t len);

/* Write the address of the peer link of a run dir's proxy, "ADDRESS:PORT", into
 * `buf`. Returns false if there is no proxy. */
bool perf_rails_peer_link(const char *run_dir, char *buf, size_t len);

/* The findings of mpib-perf check about a pair of hosts, for one device of
 * each. */
struct perf_verdict {
	int host[2]; /* indices of opt->hosts */
	/* index of the device at both hosts; -1: the test did not begin */
	int device;
	int devices[2]; /* number of devices of each host */
	bool ran; /* false: the test failed */
	char why[400]; /* why it failed; "": it did not end in time */
	uint64_t wrong; /* number of wrong messages */
	double p50_us, p99_us; /* one-way latency of small messages */
	double busbw; /* GB/s each way, while both directions send */
	double seconds; /* length of the speed test */
	int speed_mbps[2]; /* reported by the plugin */
	struct perf_rails rails[2]; /* counts since the speed test began */
};

/* Write the faults of a pair to `text`, one line for each. `median` is the
 * median busbw of this device over all pairs; 0 means unknown. Returns the
 * number of lines, at most `max`. */
#define PERF_FAULT_LEN 500
int perf_verdict_faults(const struct perf_options *opt,
			const struct perf_verdict *v, double median,
			char text[][PERF_FAULT_LEN], int max);

#endif
