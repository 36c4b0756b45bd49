/* SPDX-License-Identifier: Apache-2.0 */
/* Open the broker, which serves the peer link to other nodes' proxies. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "base/text.h"
#include "peer/broker.h"
#include "proxy.h"

/* Get the address of a rail's port from its GID. Return false if the rail's
 * device does not answer. */
static bool rail_address(struct mpib_proxy *p, unsigned rail,
			 struct in6_addr *addr)
{
	struct mpib_port_info port;

	if (mpib_engine_port(p->engine, rail, &port) < 0)
		return false;
	memcpy(addr, port.gid.raw, sizeof(*addr));
	return true;
}

/* Return the SOUT rail's IPv4 address in network order. Return 0 if the rail
 * has none, or if the rail's device does not answer. */
static uint32_t sout_address(struct mpib_proxy *p)
{
	struct in6_addr addr;

	return rail_address(p, MPIB_RAIL_SOUT, &addr) ? mpib_address_ip(&addr)
						      : 0;
}

static const char *what_sout_lacks(struct mpib_proxy *p)
{
	struct in6_addr addr;

	return rail_address(p, MPIB_RAIL_SOUT, &addr) ? "has no IPv4 address"
						      : "does not answer";
}

/* Choose the peer link's address: the configured one; else, on the software
 * HCA, that of SOUT; else this machine's address on its default route; else
 * that of SOUT. On RDMA rails, the address of SOUT is the last choice: such a
 * link would fail together with the rail, just when the proxies need the link
 * to move traffic to the other rail. */
static int peer_address(struct mpib_proxy *p, struct in6_addr *addr, char *why)
{
	const struct mpib_rail_spec *sout = &p->cfg.engine.rail[MPIB_RAIL_SOUT];

	if (p->cfg.peer_addr[0]) {
		*addr = p->cfg.peer_at[0];
		return 0;
	}
	if (sout->provider == MPIB_PROVIDER_SOFT &&
	    mpib_address_parse(sout->name, addr))
		return 0;
	if (mpib_address_default(addr))
		return 0;
	*addr = mpib_address_of_ip(sout_address(p));
	if (mpib_address_ip(addr))
		return 0;
	return mpib_why_fail(
		why, -EADDRNOTAVAIL,
		"peer link: rail SOUT %s, and this machine has no default "
		"route (give --peer-addr)",
		what_sout_lacks(p));
}

/* Get the address that determines this node's island: the address of SOUT. On
 * InfiniBand SOUT has none, so use the address of the peer link. *ip is in
 * network order. */
static int island_address(struct mpib_proxy *p, const struct in6_addr *addr,
			  uint32_t *ip, char *why)
{
	*ip = sout_address(p);
	if (*ip == 0)
		*ip = mpib_address_ip(addr);
	if (*ip || !mpib_islands_given(&p->cfg.islands))
		return 0;
	return mpib_why_fail(
		why, -EADDRNOTAVAIL,
		"islands: rail SOUT %s, and the peer link has no IPv4 "
		"address that determines this node's island (give "
		"--peer-addr, or no island.prefix and island.networks)",
		what_sout_lacks(p));
}

/* Return the second address, to which peers connect if the first address fails.
 * If peer.addr is set, this is its second address, or "::" if it has none.
 * Otherwise it is the first IPv4 address of a rail that is not *first, or "::"
 * if there is none. */
static struct in6_addr second_address(struct mpib_proxy *p,
				      const struct in6_addr *first)
{
	if (p->cfg.peer_addr[0])
		return p->cfg.peer_at[1];
	for (unsigned r = 0; r < mpib_config_rail_total(&p->cfg); r++) {
		struct in6_addr addr;

		if (rail_address(p, r, &addr) && mpib_address_ip(&addr) &&
		    !mpib_address_same(&addr, first))
			return addr;
	}
	return in6addr_any;
}

/* Warn if the address of rail SOUT is the only one of the peer link, as on a
 * node with one network. */
static void warn_shared(struct mpib_proxy *p, const struct in6_addr *addr)
{
	if (IN6_IS_ADDR_UNSPECIFIED(mpib_broker_second(p->broker)) &&
	    p->cfg.engine.rail[MPIB_RAIL_SOUT].provider != MPIB_PROVIDER_SOFT &&
	    mpib_address_ip(addr) && mpib_address_ip(addr) == sout_address(p))
		mpib_warn("peer link: it shares the address of rail SOUT and "
			  "fails with it (give it another: peer.addr)");
}

static int load_key(const struct mpib_proxy *p, const struct in6_addr *addr,
		    struct mpib_cluster_key *key, char *why)
{
	const char *path = p->cfg.peer_key_file, *bad;
	int rc;

	if (path[0]) {
		rc = mpib_cluster_key_load(path, MPIB_FILE_OWNED, key, &bad);
		if (rc < 0)
			mpib_why_fail(why, rc, "peer.key_file = %s: %s", path,
				      bad);
		return rc;
	}
	if (ntohl(mpib_address_ip(addr)) >> 24 != IN_LOOPBACKNET &&
	    !IN6_IS_ADDR_LOOPBACK(addr))
		mpib_warn("peer link: any program that reaches it counts as "
			  "a proxy of the cluster (set peer.key_file)");
	return 0;
}

/* Add the network of one of this node's addresses, and the networks of routes
 * through its interface. -ERANGE: the address has no network, as in some
 * clouds, or there are more routes than a list has room for. Then the networks
 * of this node say nothing about the peers' addresses. */
static int add_networks(struct mpib_networks *list, const struct in6_addr *own)
{
	int rc = mpib_networks_add_own(list, own);

	if (rc != -ERANGE && rc != -ENOSPC)
		rc = mpib_routes_add(list, own);
	return rc == -ENOSPC ? -ERANGE : rc;
}

/* Find the default networks: the networks of the peer link's address and of the
 * rails' addresses. */
static void find_networks(struct mpib_proxy *p,
			  const struct mpib_broker_opts *opts)
{
	struct mpib_networks *list = &p->cfg.networks;
	int rc = add_networks(list, &opts->addr);

	if (rc != -ERANGE && !IN6_IS_ADDR_UNSPECIFIED(&opts->second))
		rc = add_networks(list, &opts->second);
	for (unsigned r = 0;
	     rc != -ERANGE && r < mpib_config_rail_total(&p->cfg); r++) {
		struct in6_addr addr;

		if (rail_address(p, r, &addr))
			rc = add_networks(list, &addr);
	}
	if (rc == -ERANGE)
		list->n = 0;
	if (list->n == 0)
		mpib_info("peer link: peers may have any address: the "
			  "addresses and routes of this node have no network, "
			  "or too many (give peer.networks)");
}

/* Fill in the addresses of opts, and the networks of peers. Returns 0, or
 * -errno with the reason in `why`. */
static int choose_addresses(struct mpib_proxy *p, struct mpib_broker_opts *opts,
			    char *why)
{
	opts->second = second_address(p, &opts->addr);
	if (!strcmp(p->cfg.peer_networks, "auto"))
		find_networks(p, opts);
	return island_address(p, &opts->addr, &opts->sout, why);
}

/* Store the peer link's address as text. */
static void tell_address(struct mpib_proxy *p, const struct in6_addr *addr)
{
	mpib_address_text(addr, mpib_broker_port(p->broker), p->view.peer_link,
			  sizeof(p->view.peer_link));
	warn_shared(p, addr);
}

int mpib_start_peer_link(struct mpib_proxy *p, char *why)
{
	char reason[300];
	struct mpib_cluster_key key = { 0 };
	struct mpib_broker_opts opts = {
		.loop = &p->loop,
		.engine = p->engine,
		.port = (uint16_t)p->cfg.peer_port,
		.key = &key,
		.networks = &p->cfg.networks,
		.islands = &p->cfg.islands,
		.private_lanes = p->cfg.lanes == MPIB_LANES_PRIVATE,
		.silence_s = p->cfg.silence,
		.request_s = p->cfg.request_timeout,
		.connect_s = p->cfg.connect_timeout,
		.grace_s = p->cfg.engine.resume ? p->cfg.resume_grace : 0,
	};
	int rc = peer_address(p, &opts.addr, why);

	if (rc < 0)
		return rc;
	rc = load_key(p, &opts.addr, &key, why);
	p->misconfigured = rc < 0;
	if (rc == 0)
		rc = choose_addresses(p, &opts, why);
	if (rc < 0)
		return rc;
	rc = mpib_broker_open(&opts, &p->broker, reason, sizeof(reason));
	if (rc < 0) {
		p->broker = NULL;
		return mpib_why_fail(why, rc, "peer link: %s", reason);
	}
	p->peer_link = opts.addr;
	mpib_cluster_init(&p->cluster, &p->loop, p->engine, p->broker,
			  &p->view);
	return 0;
}

int mpib_serve_peer_link(struct mpib_proxy *p, char *why)
{
	char reason[300];
	int rc = mpib_broker_serve(p->broker, p->agent, reason, sizeof(reason));

	if (rc < 0)
		return mpib_why_fail(
			why, rc,
			"peer link: %s (give another --peer-port or "
			"--peer-addr)",
			reason);
	tell_address(p, &p->peer_link);
	return 0;
}
