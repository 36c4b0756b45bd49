/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes RDMA devices by name. */
#include "verbs/rdma/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Finds the ports of this machine that libibverbs can open and rails can use. */

/* WRITE_WITH_IMM on RC exists on InfiniBand and RoCE, whose transport type is
 * IB; iWARP and others have another transport type. */
static bool discover_is_ours(const struct ibv_device *device)
{
	return device->node_type == IBV_NODE_CA &&
	       device->transport_type == IBV_TRANSPORT_IB;
}

static void discover_ask(struct ibv_context *ctx, struct mpib_rdma_port *p)
{
	p->error = mpib_rdma_query_port(ctx, p->port, &p->info);
	/* Soft-RoCE has no PCI device below it. */
	p->is_virtual = p->error == 0 && p->info.pci_path[0] == '\0';
	p->is_function = p->error == 0 && mpib_rdma_is_function(ctx->device);
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
