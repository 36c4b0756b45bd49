/* SPDX-License-Identifier: Apache-2.0 */
/* The line that the log has for each rail's port. */
#include "rails/describe.h"

#include <arpa/inet.h>
#include <stdio.h>

static const char *gid_kind(uint8_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V2:
		return " (RoCE v2)";
	case IBV_GID_TYPE_ROCE_V1:
		return " (RoCE v1)";
	default:
		return "";
	}
}

void mpib_rail_describe(const char *label, const char *name,
			const struct mpib_port_info *port, char *buf,
			size_t len)
{
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
	char gid[INET6_ADDRSTRLEN], lid[16] = "", numa[24] = "";

	inet_ntop(AF_INET6, port->gid.raw, gid, sizeof(gid));
	if (!ethernet)
		snprintf(lid, sizeof(lid), " LID %u,", port->lid);
	if (port->numa_node >= 0)
		snprintf(numa, sizeof(numa), ", NUMA node %d", port->numa_node);
	snprintf(buf, len,
		 "rail %s %s: %s, %s, %.4g Gb/s, MTU %u,%s GID %u %s%s%s",
		 label, name,
		 ibv_port_state_str((enum ibv_port_state)port->state),
		 ethernet ? "Ethernet" : "InfiniBand",
		 (double)port->speed_mbps / 1000, 128u << port->mtu, lid,
		 port->gid_index, gid, gid_kind(port->gid_type), numa);
}
