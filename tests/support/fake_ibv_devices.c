/* SPDX-License-Identifier: Apache-2.0 */
/* Fake devices, GIDs and failing calls, as the test defines them. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_ibv.h"

void fake_ibv_add_gid(struct fake_device *d, unsigned port, const char *addr,
		      enum ibv_gid_type type)
{
	struct fake_port *p = &d->port[port - 1];
	struct ibv_gid_entry *e = &p->gid[p->gids];
	struct in_addr v4;

	*e = (struct ibv_gid_entry){ .gid_index = p->gids++,
				     .port_num = port,
				     .gid_type = type };
	if (inet_pton(AF_INET, addr, &v4) == 1) {
		e->gid.raw[10] = e->gid.raw[11] = 0xff;
		memcpy(e->gid.raw + 12, &v4, 4);
	} else if (inet_pton(AF_INET6, addr, e->gid.raw) != 1) {
		abort();
	}
}

struct fake_device *fake_ibv_add(const char *name, const char *addr)
{
	struct fake_device *d = &fake_ibv.device[fake_ibv.devices++];

	*d = (struct fake_device){
		.ibv = { .node_type = IBV_NODE_CA,
			 .transport_type = IBV_TRANSPORT_IB },
		.soft = addr,
		.attr = { .phys_port_cnt = 1,
			  .max_mr_size = UINT64_MAX,
			  .max_qp = 1 << 17,
			  .max_qp_rd_atom = 16,
			  .max_qp_init_rd_atom = 16,
			  .max_qp_wr = 4096,
			  .max_cqe = 1 << 20,
			  .max_srq_wr = 4096 },
	};
	snprintf(d->ibv.name, sizeof(d->ibv.name), "%s", name);
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "/nowhere/%s",
		 name);
	for (unsigned i = 0; i < FAKE_PORTS; i++)
		d->port[i].attr = (struct ibv_port_attr){
			.state = IBV_PORT_ACTIVE,
			.link_layer = IBV_LINK_LAYER_ETHERNET,
			.active_width = 2,
			.active_speed = 32,
			.max_mtu = IBV_MTU_4096,
			.active_mtu = IBV_MTU_4096,
			.pkey_tbl_len = 1,
		};
	fake_ibv_add_gid(d, 1, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	fake_ibv_add_gid(d, 1, addr, IBV_GID_TYPE_ROCE_V2);
	return d;
}

void fake_ibv_make_ib(struct fake_device *d, uint16_t lid)
{
	d->port[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	d->port[0].attr.lid = lid;
	d->port[0].gids = 0;
	fake_ibv_add_gid(d, 1, d->soft, IBV_GID_TYPE_IB);
}

void fake_ibv_fails(const char *call, int error, unsigned times)
{
	fake_ibv.fail = call;
	fake_ibv.error = error;
	fake_ibv.times = times;
}
