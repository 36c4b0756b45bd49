/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a node is, as its proxy tells peers that ask: small enough for one frame of
 * a peer link, whatever the node has.
 */
#ifndef MPIB_PEER_REPORT_H
#define MPIB_PEER_REPORT_H

#include "agent/agent.h"
#include "engine/engine.h"
#include "engine/measure/snapshot.h"

#define MPIB_REPORT_SETTINGS 40u

enum {
	MPIB_REPORT_UP = 1,
	MPIB_REPORT_DRAINED = 2,
	MPIB_REPORT_SOFT = 4, /* a rail of the software HCA */
	MPIB_REPORT_FLAGS = 7
};

struct mpib_node_report {
	char version[24], host[64];
	uint32_t uptime_s, clients, connections;
	uint32_t stuck; /* requests older than 5 s */
	uint8_t devices, rails; /* of each; at most MPIB_RAILS_MAX in all */
	struct mpib_report_rail { /* by number */
		char device[16];
		uint8_t flags;
		uint32_t speed_mbps, expected_mbps; /* 0: not known */
		uint64_t errors, failovers;
	} rail[MPIB_RAILS_MAX];
	/* The peer to which the fewest bytes passed in the time that rails were
	 * busy with them, of those with enough for a rate. "": none. */
	char slowest[MPIB_LABEL_MAX];
	uint64_t slowest_mbps, slowest_rtt_ns;
	struct mpib_agent_word agent; /* to whom it is told */
	/* Settings that a cluster has alike: hashes of "section.key" and of the
	 * value. */
	uint8_t settings;
	struct mpib_report_setting {
		uint32_t name, value;
	} setting[MPIB_REPORT_SETTINGS];
};

#endif
