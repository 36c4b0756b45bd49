/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What speaks against a rail: counters of this node's ports (counters.c), and
 * the operator's list of maintenance (windows.c).
 */
#ifndef MPIB_AGENT_HEALTH_H
#define MPIB_AGENT_HEALTH_H

#include "agent/conf.h"

#define MPIB_AGENT_SYSFS "/sys"

/* What speaks against a rail, as one of its ports or, in sick and congested, one
 * kind of its counters tells. since: seconds of the epoch; 0: nothing does. */
struct mpib_agent_objection {
	uint64_t since;
	uint64_t last_ns; /* when it was last seen, monotonic */
	char why[MPIB_AGENT_REASON];
};

/* A port's counters as last read. */
struct mpib_agent_ports {
	const char *sysfs; /* "/sys", or another root of the same form */
	struct mpib_agent_port_seen {
		uint64_t at_ns; /* 0: not read yet */
		bool told; /* warned: it cannot be read */
		bool has[MPIB_AGENT_LIMITS];
		uint64_t n[MPIB_AGENT_LIMITS];
	} seen[MPIB_AGENT_PORTS];
	struct mpib_agent_objection sick[MPIB_RAILS], congested[MPIB_RAILS];
};

/* Seconds of the epoch, and monotonic nanoseconds. */
struct mpib_agent_now {
	uint64_t s, ns;
};

/* Read the ports of c. A rail to which something objects stays so until nothing was seen for
 * c->hold_s. The first look at a counter, and one at a counter that went back,
 * tells nothing. */
void mpib_agent_ports_look(struct mpib_agent_ports *p,
			   const struct mpib_agent_conf *c,
			   const struct mpib_agent_now *now);
/* Forget counters: the configuration names other ports. Objections stay. */
void mpib_agent_ports_renew(struct mpib_agent_ports *p);

#define MPIB_AGENT_WINDOWS_MAX 1024u

/* The list. A line is "PEER RAIL FROM TO": PEER an address, a network or "all";
 * times as 2030-01-31T20:00:00Z. */
struct mpib_agent_windows {
	unsigned n;
	struct mpib_agent_window {
		struct mpib_network net;
		unsigned rail, line;
		uint64_t from, to; /* seconds of the epoch */
	} * of;
	/* The file as last read; told: of its fault. */
	uint64_t mtime_ns, size, inode;
	bool told;
};

/* Read the file again if it is another than before. One that is faulty leaves
 * the list as it was, with a warning; so does one that is gone. */
void mpib_agent_windows_look(struct mpib_agent_windows *w, const char *path);
bool mpib_agent_windows_read(struct mpib_agent_windows *w, const char *path,
			     char *why);
void mpib_agent_windows_free(struct mpib_agent_windows *w);
/* The window that has the rail to this peer, IPv4 in network order, lead_s
 * before it begins until it ends. NULL: none. */
const struct mpib_agent_window *
mpib_agent_window_of(const struct mpib_agent_windows *w, uint32_t peer,
		     unsigned rail, uint64_t now_s, uint64_t lead_s);

#endif
