/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes RDMA devices by name. */
#include "verbs/rdma/rdma.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/text.h"

int mpib_rdma_open(const struct mpib_rail_spec *spec, struct ibv_context **ctx)
{
	struct ibv_device **list;
	struct ibv_context *c;
	int rc = -ENODEV;

	errno = 0;
	list = ibv_get_device_list(NULL);
	if (!list)
		return mpib_rdma_err();
	for (int i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), spec->name))
			continue;
		errno = 0;
		c = ibv_open_device(list[i]);
		rc = c ? 0 : mpib_rdma_err();
		if (rc == 0)
			*ctx = c;
		break;
	}
	ibv_free_device_list(list);
	return rc;
}

int mpib_rdma_close(struct ibv_context *ctx)
{
	errno = 0;
	return ibv_close_device(ctx) ? mpib_rdma_err() : 0;
}

void mpib_rdma_device_names(char *buf, size_t len)
{
	struct ibv_device **list;
	size_t used = 0;

	errno = 0;
	list = ibv_get_device_list(NULL);
	if (!list || !list[0])
		snprintf(buf, len,
			 "none: is the driver loaded, and /dev/infiniband "
			 "there?");
	for (int i = 0; list && list[i] && used < len; i++)
		used += (size_t)snprintf(buf + used, len - used, "%s%s",
					 i ? ", " : "",
					 ibv_get_device_name(list[i]));
	if (list)
		ibv_free_device_list(list);
}

/* Choose the GID of a port. The order of the GID table has no meaning, and
 * entries move when an address changes or a link flaps. So every query of the
 * port searches the table again for the best address. */

/* Written before the first open. Any thread that queries a port reads it. */
static struct mpib_networks nets;

int mpib_rdma_prefer_nets(const char *text, char *why, size_t why_len)
{
	struct mpib_networks parsed;
	int rc = mpib_networks_parse(&parsed, text, why, why_len);

	if (rc == 0)
		nets = parsed;
	return rc;
}

/* added to the rank of a GID that is in this namespace; larger than all
 * ranks */
#define HERE 8

/* Return the rank of a GID; 0: not usable. Only RoCE v2 is usable: v1 frames
 * are not routed, and a v1 end cannot talk to a v2 end. */
static int gid_rank(const struct ibv_gid_entry *e)
{
	static const union ibv_gid none;
	struct in6_addr addr;

	if (e->gid_type != IBV_GID_TYPE_ROCE_V2 ||
	    !memcmp(&e->gid, &none, sizeof(none)))
		return 0;
	memcpy(&addr, &e->gid, sizeof(addr));
	if (nets.n > 0 && mpib_networks_have(&nets, &addr))
		return 4;
	if (IN6_IS_ADDR_V4MAPPED(&addr))
		return 3;
	return IN6_IS_ADDR_LINKLOCAL(&addr) ? 1 : 2;
}

static void gid_take(const struct ibv_gid_entry *e, struct mpib_port_info *info)
{
	info->gid = e->gid;
	info->gid_index = (uint8_t)e->gid_index;
	info->gid_type = (uint8_t)e->gid_type;
}

/* Return whether the GID's interface is in this network namespace. If several
 * namespaces share a device, the device lists the GIDs of all these namespaces.
 * Each namespace may have an eth0, so also compare the address. But do not
 * compare a link-local GID: such a GID is made from the port's GUID, and the
 * interface may have another address. Also return true if sysfs names no
 * interface. */
static bool gid_is_here(const struct ibv_context *ctx,
			const struct ibv_gid_entry *e)
{
	char name[IF_NAMESIZE], here[IF_NAMESIZE];
	struct in6_addr addr;

	if (!mpib_read_line(name, sizeof(name),
			    "%s/ports/%u/gid_attrs/ndevs/%u",
			    ctx->device->ibdev_path, e->port_num, e->gid_index))
		return true;
	memcpy(&addr, &e->gid, sizeof(addr));
	if (IN6_IS_ADDR_LINKLOCAL(&addr))
		return if_nametoindex(name) != 0;
	mpib_address_interface(&addr, here);
	return !strcmp(here, name);
}

static int gid_choose(const struct ibv_context *ctx,
		      const struct ibv_gid_entry *e, ssize_t n, uint8_t port,
		      struct mpib_port_info *info)
{
	int best = 0;

	for (ssize_t i = 0; i < n; i++) {
		int rank = gid_rank(&e[i]);

		if (e[i].port_num != port || e[i].gid_index > UINT8_MAX)
			continue;
		if (rank && gid_is_here(ctx, &e[i]))
			rank += HERE;
		if (rank <= best)
			continue;
		best = rank;
		gid_take(&e[i], info);
	}
	return best ? 0 : -EADDRNOTAVAIL;
}

/* Return the number of GID entries of all ports of the device. Each port has
 * its own table. */
static ssize_t all_gids(struct ibv_context *ctx)
{
	struct ibv_device_attr dev;
	struct ibv_port_attr attr;
	ssize_t n = 0;
	int rc = ibv_query_device(ctx, &dev);

	for (unsigned port = 1; !rc && port <= dev.phys_port_cnt; port++) {
		rc = ibv_query_port(ctx, (uint8_t)port, &attr);
		n += rc ? 0 : attr.gid_tbl_len;
	}
	return rc ? -rc : n;
}

/* On InfiniBand the port's own GID has index 0. If routers connect subnets,
 * index 1 is the GID with the port's FLID (lane/qps.c). */
static int choose_ib_gid(struct ibv_context *ctx, uint8_t port,
			 const struct ibv_port_attr *attr,
			 struct mpib_port_info *info)
{
	union ibv_gid routed;

	info->gid_type = IBV_GID_TYPE_IB;
	if (attr->gid_tbl_len > 1 &&
	    ibv_query_gid(ctx, port, 1, &routed) == 0 &&
	    (routed.raw[4] || routed.raw[5])) {
		info->gid = routed;
		info->gid_index = 1;
		return 0;
	}
	errno = 0;
	return ibv_query_gid(ctx, port, 0, &info->gid) ? mpib_rdma_err() : 0;
}

/* Choose the GID that new QPs of the port use, and set info's gid, gid_index
 * and gid_type. Return -EADDRNOTAVAIL if the port has no usable GID. */
static int choose_gid(struct ibv_context *ctx, uint8_t port,
		      const struct ibv_port_attr *attr,
		      struct mpib_port_info *info)
{
	struct ibv_gid_entry *table;
	ssize_t n;
	int rc;

	if (attr->link_layer != IBV_LINK_LAYER_ETHERNET)
		return choose_ib_gid(ctx, port, attr, info);
	n = all_gids(ctx);
	if (n < 0)
		return (int)n;
	table = calloc((size_t)n + 1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	n = ibv_query_gid_table(ctx, table, (size_t)n, 0);
	rc = n < 0 ? (int)n : gid_choose(ctx, table, n, port, info);
	free(table);
	return rc;
}

/*
 * Query of a port: its current state, speed, limits and addresses.
 */

/* Return the speed of one physical lane in Mb/s. `speed` is active_speed in the
 * encoding of InfiniBand's PortInfo. 0: the speed is newer than this table. */
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

/* Return the speed of a port in Mb/s from the text in sysfs, such as "800
 * Gb/sec (4X XDR)". Use this for speeds that active_speed cannot express. */
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

/* Return the part of a scalable function's path that follows the PCI address,
 * such as "/mlx5_core.sf.2" in ".../0000:08:00.0/mlx5_core.sf.2". Return NULL
 * if the PCI function is not a scalable function. */
static char *beyond_pci(char *path)
{
	char *name = strrchr(path, '/');

	return name && strstr(name, ".sf.") ? name : NULL;
}

/* Write the path of the device's PCI function in /sys. The path is empty for a
 * device without a PCI function, such as soft-RoCE. */
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

static bool is_function(const struct ibv_device *device)
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
	/* If the driver reports no limit, use the largest possible one. */
	out.max_msg_sz = attr.max_msg_sz ? attr.max_msg_sz : 1u << 31;
	out.pkeys = attr.pkey_tbl_len;
	port_place(ctx->device, &out);
	rc = choose_gid(ctx, port, &attr, &out);
	/* A port that is down may have no GID. Then report success and the
	 * state, which tells the caller more than -EADDRNOTAVAIL. */
	if (rc < 0 && (rc != -EADDRNOTAVAIL || attr.state == IBV_PORT_ACTIVE))
		return rc;
	*info = out;
	return 0;
}

/* Discovery of the ports of this machine that libibverbs can open and rails can
 * use. */

/* Return whether the device has RC with WRITE_WITH_IMM. InfiniBand and RoCE
 * devices have it; their transport type is IB. Other devices, such as iWARP,
 * have another transport type. */
static bool discover_is_ours(const struct ibv_device *device)
{
	return device->node_type == IBV_NODE_CA &&
	       device->transport_type == IBV_TRANSPORT_IB;
}

static void discover_ask(struct ibv_context *ctx, struct mpib_rdma_port *p)
{
	p->error = mpib_rdma_query_port(ctx, p->port, &p->info);
	/* Soft-RoCE has no underlying PCI device. */
	p->is_virtual = p->error == 0 && p->info.pci_path[0] == '\0';
	p->is_function = p->error == 0 && is_function(ctx->device);
}

unsigned mpib_rdma_ask(const struct mpib_rail_spec *spec,
		       struct mpib_rdma_port *port, unsigned max)
{
	struct ibv_device_attr attr = { .phys_port_cnt = 1 };
	struct ibv_context *ctx = NULL;
	int error = mpib_rdma_open(spec, &ctx);
	unsigned n = 0;

	errno = 0;
	if (!error && ibv_query_device(ctx, &attr))
		error = mpib_rdma_err();
	for (; n < attr.phys_port_cnt && n < max; n++) {
		struct mpib_rdma_port *p = &port[n];

		*p = (struct mpib_rdma_port){ .port = (uint8_t)(n + 1),
					      .error = error,
					      .card = attr.sys_image_guid,
					      .model = attr.vendor_part_id };
		memcpy(p->name, spec->name, sizeof(p->name));
		if (!error)
			discover_ask(ctx, p);
	}
	if (ctx)
		mpib_rdma_close(ctx);
	return n;
}

int mpib_rdma_list(struct mpib_rail_spec **spec)
{
	struct ibv_device **list;
	int n = 0, all = 0;

	errno = 0;
	list = ibv_get_device_list(&all);
	if (!list)
		return mpib_rdma_err();
	*spec = all ? calloc((size_t)all, sizeof(**spec)) : NULL;
	for (int i = 0; *spec && i < all; i++) {
		if (!discover_is_ours(list[i]))
			continue;
		snprintf((*spec)[n].name, sizeof((*spec)[n].name), "%s",
			 ibv_get_device_name(list[i]));
		n++;
	}
	ibv_free_device_list(list);
	return all && !*spec ? -ENOMEM : n;
}
