/* SPDX-License-Identifier: Apache-2.0 */
/* Results of mpib_request_rails() and mpib_request_times() in mpib/client.h:
 * what each rail has done for a request, and when. */
#ifndef MPIB_REPORT_H
#define MPIB_REPORT_H

#include <stdint.h>

enum mpib_rail_state {
	MPIB_RAIL_IDLE, /* nothing posted on the rail yet */
	/* send: bytes are in flight on the rail; receive: the CTS was sent */
	MPIB_RAIL_POSTED,
	/* send: all bytes posted on the rail are complete; receive: the request
	 * is complete */
	MPIB_RAIL_DONE,
};

struct mpib_rail_report {
	enum mpib_rail_state state;
	/* number of the QP that the request last used on this rail */
	uint32_t qpn;
	uint64_t bytes; /* bytes posted (send) or arrived (receive) */
};

/* Times of CLOCK_MONOTONIC in ns. 0: the step has not happened, or its time is
 * unknown. */
struct mpib_report_times {
	uint64_t submitted_ns; /* mpib_isend() or mpib_irecv() was called */
	uint64_t over_ns; /* the proxy completed the request */
	struct {
		/* the first WRs (send) or the CTS (receive) were posted */
		uint64_t posted_ns;
		/* the rail's last bytes completed (send) or arrived
		 * (receive) */
		uint64_t done_ns;
	} rail[2];
};

#define MPIB_PROFILED_MAGIC 0x4650424d4950424dull

/*
 * Data that mpib's NCCL plugin passes to NCCL's profiler for each network event
 * that the profiler accepted. The plugin passes the data with the state
 * ncclProfilerNetPluginUpdate, immediately before it calls stopEvent. NCCL's
 * own transports do not use this state. The times have the same meaning as in
 * struct mpib_report_times. The profiler is called some time after these steps,
 * because the plugin reads the proxy's reports only when NCCL calls test().
 */
struct mpib_profiled {
	uint64_t magic; /* MPIB_PROFILED_MAGIC */
	uint32_t size; /* bytes of this struct; new fields are appended */
	uint32_t rail; /* 0: SOUT, 1: SUP */
	uint64_t bytes; /* bytes posted or arrived on the rail */
	uint64_t submitted_ns, posted_ns, done_ns, over_ns;
	/* when test() found the request complete; 0: not complete yet */
	uint64_t seen_ns;
};

#endif
