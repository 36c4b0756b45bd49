/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes RDMA devices by name. */
#include "verbs/rdma/internal.h"

#include <stdio.h>
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
