/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the broker, which serves the peer link to other nodes' proxies. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "peer/broker.h"
#include "start.h"

/* The SOUT rail's IPv4 address, which decides the node's island; 0: none. */
static uint32_t sout_address(struct mpib_proxy *p)
{
	struct mpib_port_info port;
	struct in6_addr gid;
	uint32_t addr = 0;

	if (mpib_engine_port(p->engine, MPIB_RAIL_SOUT, &port) < 0)
		return 0;
	memcpy(&gid, port.gid.raw, sizeof(gid));
	if (IN6_IS_ADDR_V4MAPPED(&gid))
		memcpy(&addr, &gid.s6_addr[12], sizeof(addr));
	return addr;
}

/* The peer link's address: as configured, else the SOUT rail's IPv4 address. */
static int peer_address(struct mpib_proxy *p, struct in_addr *addr, char *why)
{
	const struct mpib_rail_spec *sout = &p->cfg.engine.rail[MPIB_RAIL_SOUT];

	if (p->cfg.peer_addr[0]) {
		if (inet_pton(AF_INET, p->cfg.peer_addr, addr) == 1)
			return 0;
		snprintf(why, MPIB_WHY_MAX,
			 "peer link: \"%s\" is no IPv4 address (give a.b.c.d)",
			 p->cfg.peer_addr);
		return -EINVAL;
	}
	if (sout->provider == MPIB_PROVIDER_SOFT &&
	    inet_pton(AF_INET, sout->name, addr) == 1)
		return 0;
	addr->s_addr = sout_address(p);
	if (addr->s_addr)
		return 0;
	snprintf(why, MPIB_WHY_MAX,
		 "peer link: rail SOUT has no IPv4 address (give --peer-addr)");
	return -EADDRNOTAVAIL;
}

static int load_key(const struct mpib_proxy *p, const struct in_addr *addr,
		    struct mpib_cluster_key *key, char *why)
{
	if (p->cfg.peer_key_file[0])
		return mpib_cluster_key_load(p->cfg.peer_key_file, key, why,
					     MPIB_WHY_MAX);
	if (ntohl(addr->s_addr) >> 24 != IN_LOOPBACKNET)
		mpib_warn("peer link: whoever reaches it is taken for a proxy "
			  "of the cluster (set peer.key_file)");
	return 0;
}

int mpib_start_peer_link(struct mpib_proxy *p, char *why)
{
	char reason[300], text[INET_ADDRSTRLEN];
	struct mpib_cluster_key key = { 0 };
	struct in_addr addr;
	int rc = peer_address(p, &addr, why);
	struct mpib_broker_opts opts = {
		.loop = &p->loop,
		.engine = p->engine,
		.port = (uint16_t)p->cfg.peer_port,
		.islands = &p->cfg.islands,
		.agent = p->agent,
		.private_lanes = p->cfg.lanes == MPIB_LANES_PRIVATE,
		.silence_s = p->cfg.silence,
		.request_s = p->cfg.request_timeout,
		.connect_s = p->cfg.connect_timeout,
		.idle = p->takeover != NULL,
	};

	if (rc < 0)
		return rc;
	rc = load_key(p, &addr, &key, why);
	if (rc < 0)
		return rc;
	opts.key = &key;
	opts.addr = addr.s_addr;
	opts.sout = sout_address(p);
	rc = mpib_broker_open(&opts, &p->broker, reason, sizeof(reason));
	if (rc < 0) {
		p->broker = NULL;
		snprintf(why, MPIB_WHY_MAX,
			 "peer link: %s (give another --peer-port or --sout)",
			 reason);
		return rc;
	}
	if (p->takeover) {
		snprintf(p->view.peer_link, sizeof(p->view.peer_link), "%s",
			 p->takeover->base.peer_link);
		return 0;
	}
	inet_ntop(AF_INET, &addr, text, sizeof(text));
	snprintf(p->view.peer_link, sizeof(p->view.peer_link), "%s:%u", text,
		 mpib_broker_port(p->broker));
	return 0;
}
