/* SPDX-License-Identifier: Apache-2.0 */
/* Results of mpib_request_rails() and mpib_request_times() of mpib/client.h:
 * the work of each rail for a request, and its times. */
#ifndef MPIB_REPORT_H
#define MPIB_REPORT_H

#include <stdint.h>

enum mpib_rail_state {
	MPIB_RAIL_IDLE, /* the rail carries nothing of the request */
	/* bytes are in flight, or the receive's CTS was sent */
	MPIB_RAIL_POSTED,
	/* the rail's part is complete; for a receive, the whole request */
	MPIB_RAIL_DONE,
};

struct mpib_rail_report {
	enum mpib_rail_state state;
	uint32_t qpn; /* the QP that the request used last */
	uint64_t bytes; /* bytes posted (send) or arrived (receive) */
};

/* Result of mpib_request_times(): times in ns of CLOCK_MONOTONIC. 0: not yet,
 * or not known. */
struct mpib_report_times {
	uint64_t submitted_ns; /* mpib_isend() or mpib_irecv() was called */
	uint64_t over_ns; /* the proxy completed the request */
	struct {
		uint64_t posted_ns; /* the first chain or the CTS was posted */
		uint64_t done_ns; /* the last part completed, or arrived */
	} rail[2];
};

#define MPIB_PROFILED_MAGIC 0x4650424d4950424dull

/*
 * Data that mpib's plugin gives to NCCL's profiler for each network event that
 * the profiler accepted. It comes with the state ncclProfilerNetPluginUpdate,
 * right before stopEvent. NCCL's own transports do not use that state. The
 * times have the same meaning as in struct mpib_report_times. The callbacks
 * come later than these times, because the plugin learns what the proxy did
 * only when NCCL calls test.
 */
struct mpib_profiled {
	uint64_t magic; /* MPIB_PROFILED_MAGIC */
	uint32_t size; /* bytes of this struct; new fields are appended */
	uint32_t rail;
	uint64_t bytes; /* bytes posted or arrived on the rail */
	uint64_t submitted_ns, posted_ns, done_ns, over_ns;
	uint64_t seen_ns; /* when test saw that the request was complete */
};

#endif
