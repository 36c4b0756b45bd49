/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route of a lane's packets from a local port to the peer's port: service
 * level, traffic class and GRH of the address vector. Control thread.
 */
#include <string.h>

#include "engine/lane/lane.h"

/* As configured; else, on InfiniBand, the communicator's traffic class if it is
 * one of the 16 service levels. */
static uint8_t service_level(const struct mpib_lane *lane,
			     const struct mpib_port_info *port)
{
	int level = lane->shard->engine->cfg.service_level;

	if (level >= 0)
		return (uint8_t)level;
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET ||
	    lane->traffic_class > 15)
		return 0;
	return lane->traffic_class;
}

static uint8_t traffic_class(const struct mpib_lane *lane)
{
	int class = lane->shard->engine->cfg.traffic_class;

	if (lane->traffic_class)
		return lane->traffic_class;
	return class < 0 ? 0 : (uint8_t) class;
}

/* The subnet prefix of an InfiniBand GID is 4 bytes that are alike on a fabric,
 * 2 bytes of FLID, the LID that routers know a port by, and 2 bytes of the subnet
 * itself. */
static bool same_subnet(const struct mpib_port_info *port,
			const struct mpib_lane_rail_info *remote)
{
	return memcmp(port->gid.raw, remote->gid, 4) == 0 &&
	       memcmp(port->gid.raw + 6, remote->gid + 6, 2) == 0;
}

/* RoCE always has a GRH. InfiniBand needs one where the port says so, without a
 * LID, and through a router, that is, to another subnet. */
static bool needs_grh(const struct mpib_port_info *port,
		      const struct mpib_lane_rail_info *remote)
{
	return port->link_layer == IBV_LINK_LAYER_ETHERNET ||
	       port->grh_required || remote->lid == 0 ||
	       !same_subnet(port, remote);
}

/* The LID in the packets: to another subnet the FLID, where there is one. */
static uint16_t route_lid(const struct mpib_port_info *port,
			  const struct mpib_lane_rail_info *remote)
{
	uint16_t flid = (uint16_t)(remote->gid[4] << 8 | remote->gid[5]);

	return port->link_layer == IBV_LINK_LAYER_ETHERNET ||
			       same_subnet(port, remote) || flid == 0
		       ? remote->lid
		       : flid;
}

void mpib_route_fill(const struct mpib_lane *lane, const struct mpib_rail *rail,
		     const struct mpib_port_info *port,
		     const struct mpib_lane_rail_info *remote,
		     struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.dlid = route_lid(port, remote),
		.sl = service_level(lane, port),
		.port_num = rail->port_num,
		.is_global = needs_grh(port, remote),
		.grh = { .sgid_index = port->gid_index,
			 .hop_limit = 255,
			 .traffic_class = traffic_class(lane) },
	};
	memcpy(ah->grh.dgid.raw, remote->gid, sizeof(remote->gid));
}

void mpib_lane_set_class(struct mpib_lane *lane, uint8_t traffic_class)
{
	lane->traffic_class = traffic_class;
}
