/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GID of a port to use. The order of the GID table means nothing, and
 * entries move when an address changes or a link flaps. So the choice goes by
 * address, and is made again at each query of the port.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/text.h"
#include "verbs/rdma/internal.h"

/* Written before the first open, read by any thread that queries a port. */
static struct mpib_network nets[MPIB_RDMA_NETS];
static unsigned net_count;

static int gid_parse_net(const char *text, size_t len, struct mpib_network *net)
{
	char buf[32], *slash;
	uint64_t bits = 32;
	struct in_addr in;

	if (len == 0 || len >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, text, len);
	buf[len] = '\0';
	slash = strchr(buf, '/');
	if (slash) {
		*slash = '\0';
		if (!mpib_number(slash + 1, 1, 32, &bits))
			return -EINVAL;
	}
	if (inet_pton(AF_INET, buf, &in) != 1)
		return -EINVAL;
	net->addr = mpib_address_of_ip(in.s_addr);
	net->bits = 96 + (unsigned)bits;
	return 0;
}

int mpib_rdma_prefer_nets(const char *text, char *why, size_t why_len)
{
	struct mpib_network parsed[MPIB_RDMA_NETS] = { 0 };
	unsigned n = 0;

	while (*text) {
		size_t len = strcspn(text, ",");

		if (n == MPIB_RDMA_NETS ||
		    gid_parse_net(text, len, &parsed[n]) < 0) {
			snprintf(why, why_len,
				 "\"%s\" is no list of at most %u networks "
				 "(give them as 10.1.0.0/16,10.2.0.0/16)",
				 text, MPIB_RDMA_NETS);
			return -EINVAL;
		}
		n++;
		text += len;
		text += *text == ',';
	}
	memcpy(nets, parsed, n * sizeof(nets[0]));
	net_count = n;
	return 0;
}

static bool is_v4_mapped(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static bool is_preferred(const union ibv_gid *gid)
{
	struct in6_addr addr;

	memcpy(&addr, gid, sizeof(addr));
	for (unsigned i = 0; i < net_count; i++) {
		if (mpib_network_has(&nets[i], &addr))
			return true;
	}
	return false;
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

#define HERE 8 /* more than any rank without */

/* How good a GID is; 0: not usable. Only RoCE v2 is used: v1 frames are not
 * routed, and a v1 end cannot talk to a v2 end. */
static int gid_rank(const struct ibv_gid_entry *e)
{
	static const union ibv_gid none;

	if (e->gid_type != IBV_GID_TYPE_ROCE_V2 ||
	    !memcmp(&e->gid, &none, sizeof(none)))
		return 0;
	if (is_v4_mapped(&e->gid))
		return is_preferred(&e->gid) ? 4 : 3;
	return is_link_local(&e->gid) ? 1 : 2;
}

static void gid_take(const struct ibv_gid_entry *e, struct mpib_port_info *info)
{
	info->gid = e->gid;
	info->gid_index = (uint8_t)e->gid_index;
	info->gid_type = (uint8_t)e->gid_type;
}

/* Whether the GID's interface is in this network namespace. A device that several
 * namespaces share lists the GIDs of all. True if sysfs names no interface. */
static bool gid_is_here(const struct ibv_context *ctx,
			const struct ibv_gid_entry *e)
{
	char name[IF_NAMESIZE];

	return !mpib_read_line(
		       name, sizeof(name), "%s/ports/%u/gid_attrs/ndevs/%u",
		       ctx->device->ibdev_path, e->port_num, e->gid_index) ||
	       if_nametoindex(name) != 0;
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

/* How many GID entries all ports of the device have together; each port has a
 * table of its own. */
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

/* InfiniBand: the port's own GID is at index 0. Where subnets are joined by
 * routers, the GID with the port's FLID (lane/qps.c) is at index 1. */
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

int mpib_rdma_choose_gid(struct ibv_context *ctx, uint8_t port,
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
