/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of one rail's part in a request, with times: mpib_request_rails() and
 * mpib_request_times() of mpib/client.h. */
#ifndef MPIB_REPORT_H
#define MPIB_REPORT_H

#include <stdint.h>

enum mpib_rail_state {
	MPIB_RAIL_IDLE, /* the rail carries nothing of the request */
	MPIB_RAIL_POSTED, /* bytes are in flight, or a receive is announced */
	MPIB_RAIL_DONE, /* its part is complete; of a receive, all of it */
};

struct mpib_rail_report {
	enum mpib_rail_state state;
	uint32_t qpn; /* the QP that the request used last */
	uint64_t bytes; /* posted (send), or that have arrived (receive) */
};

/* Times in ns of CLOCK_MONOTONIC: mpib_request_times(). 0: not yet, or not
 * known. */
struct mpib_report_times {
	uint64_t submitted_ns; /* mpib_isend() or mpib_irecv() was called */
	uint64_t over_ns; /* the proxy completed the request */
	struct {
		uint64_t posted_ns; /* first post of a chain, or of the CTS */
		uint64_t done_ns; /* the last part completed, or arrived */
	} rail[2];
};

#define MPIB_PROFILED_MAGIC 0x4650424d4950424dull

/*
 * What a profiler of NCCL gets at the end of each network event that it took
 * from mpib's plugin, as the data of the state ncclProfilerNetPluginUpdate
 * right before stopEvent; NCCL's own transports have no such state. Times are
 * as above; those of the callbacks are later, since the plugin learns in test
 * what the proxy did.
 */
struct mpib_profiled {
	uint64_t magic; /* MPIB_PROFILED_MAGIC */
	uint32_t size; /* of this struct, which grows at its end */
	uint32_t rail;
	uint64_t bytes; /* of the rail, posted or arrived */
	uint64_t submitted_ns, posted_ns, done_ns, over_ns;
	uint64_t seen_ns; /* when the plugin saw over, in test */
};

#endif
