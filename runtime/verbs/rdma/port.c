/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries a port: its present state, speed, limits and addresses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "verbs/rdma/internal.h"

/* Mb/s of one physical lane for active_speed, as InfiniBand's PortInfo encodes
 * it; 0: a speed newer than this table. */
static uint64_t lane_mbps(uint8_t speed)
{
	switch (speed) {
	case 1:
		return 2500;
	case 2:
		return 5000;
	case 4:
	case 8:
		return 10000;
	case 16:
		return 14000;
	case 32:
		return 25000;
	case 64:
		return 50000;
	case 128:
		return 100000;
	default:
		return 0;
	}
}

static unsigned port_lanes(uint8_t width)
{
	switch (width) {
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 1;
	}
}

/* The rate in sysfs, "800 Gb/sec (4X XDR)", for speeds that active_speed has no
 * bit for. */
static uint64_t sysfs_mbps(const struct ibv_context *ctx, uint8_t port)
{
	char text[32];
	double gbps;

	mpib_read_line(text, sizeof(text), "%s/ports/%u/rate",
		       ctx->device->ibdev_path, port);
	gbps = strtod(text, NULL);
	return gbps > 0 && gbps < 1e6 ? (uint64_t)(gbps * 1000) : 0;
}

static uint64_t port_mbps(const struct ibv_context *ctx, uint8_t port,
			  const struct ibv_port_attr *attr)
{
	uint64_t mbps =
		port_lanes(attr->active_width) * lane_mbps(attr->active_speed);

	return mbps ? mbps : sysfs_mbps(ctx, port);
}

/* Where path, of a scalable function (".../0000:08:00.0/mlx5_core.sf.2"), goes
 * beyond the PCI function that it is part of; NULL: nowhere. */
static char *beyond_pci(char *path)
{
	char *name = strrchr(path, '/');

	return name && strstr(name, ".sf.") ? name : NULL;
}

/* The path of the device's PCI function in /sys; empty for a device without one, as
 * soft-RoCE. */
static void pci_path(const struct ibv_device *device, char *buf, size_t len)
{
	char path[IBV_SYSFS_PATH_MAX + 16], *real, *end;

	snprintf(path, sizeof(path), "%s/device", device->ibdev_path);
	real = realpath(path, NULL);
	end = real ? beyond_pci(real) : NULL;
	if (end)
		*end = '\0';
	buf[0] = '\0';
	if (real && strlen(real) < len)
		memcpy(buf, real, strlen(real) + 1);
	free(real);
}

bool mpib_rdma_is_function(const struct ibv_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 16], *real;
	bool scalable;

	snprintf(path, sizeof(path), "%s/device/physfn", device->ibdev_path);
	if (access(path, F_OK) == 0)
		return true;
	*strrchr(path, '/') = '\0';
	real = realpath(path, NULL);
	scalable = real && beyond_pci(real);
	free(real);
	return scalable;
}

static void port_place(const struct ibv_device *device,
		       struct mpib_port_info *info)
{
	char text[16], *end;
	long node;

	pci_path(device, info->pci_path, sizeof(info->pci_path));
	mpib_read_line(text, sizeof(text), "%s/numa_node", info->pci_path);
	node = strtol(text, &end, 10);
	info->numa_node = end == text ? -1 : (int)node;
}

void mpib_rdma_place(const struct mpib_rail_spec *spec,
		     struct mpib_port_info *info)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	info->numa_node = -1;
	info->pci_path[0] = '\0';
	for (int i = 0; list && list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), spec->name))
			port_place(list[i], info);
	}
	if (list)
		ibv_free_device_list(list);
}

int mpib_rdma_query_port(struct ibv_context *ctx, uint8_t port,
			 struct mpib_port_info *info)
{
	struct mpib_port_info out = { 0 };
	struct ibv_port_attr attr;
	int rc = ibv_query_port(ctx, port, &attr);

	if (rc)
		return -rc;
	rc = ibv_query_device(ctx, &out.dev);
	if (rc)
		return -rc;
	out.speed_mbps = port_mbps(ctx, port, &attr);
	out.lid = attr.lid;
	out.link_layer = attr.link_layer;
	out.state = (uint8_t)attr.state;
	out.grh_required = attr.flags & IBV_QPF_GRH_REQUIRED;
	out.mtu = attr.active_mtu;
	/* What no device may exceed, where it says none. */
	out.max_msg_sz = attr.max_msg_sz ? attr.max_msg_sz : 1u << 31;
	out.pkeys = attr.pkey_tbl_len;
	port_place(ctx->device, &out);
	rc = mpib_rdma_choose_gid(ctx, port, &attr, &out);
	/* A port that is down may have no GID: report success and the state,
	 * which tells the caller more than -EADDRNOTAVAIL. */
	if (rc < 0 && (rc != -EADDRNOTAVAIL || attr.state == IBV_PORT_ACTIVE))
		return rc;
	*info = out;
	return 0;
}
