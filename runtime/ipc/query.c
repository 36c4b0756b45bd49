/* SPDX-License-Identifier: Apache-2.0 */
/* Information about the proxy and its devices. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ipc/client.h"
#include "ipc/message.h"

static void device_take_rail(const struct mpib_ctl_rail *from,
			     struct mpib_rail_info *to)
{
	snprintf(to->name, sizeof(to->name), "%.*s",
		 (int)sizeof(from->name) - 1, from->name);
	snprintf(to->pci_path, sizeof(to->pci_path), "%.*s",
		 (int)sizeof(from->pci_path) - 1, from->pci_path);
	to->speed_mbps = from->speed_mbps;
	to->up = (int)from->up;
}

void mpib_query(struct mpib_client *client, struct mpib_node_info *info)
{
	const struct mpib_ctl_welcome *w;
	const bool forked = client->forks != mpib_forks;

	if (!forked)
		mpib_client_hold(client);
	w = &client->at->welcome;
	*info = (struct mpib_node_info){
		.client = w->client,
		.rails = (int)w->rails,
		.dmabuf = (int)w->dmabuf,
		.devices = w->devices,
		.device = w->device,
	};
	for (unsigned i = 0; i < w->rails; i++)
		device_take_rail(&w->rail[i], &info->rail[i]);
	if (!forked)
		mpib_client_unlock(client);
}

static int device_ask(struct mpib_client *c, unsigned device,
		      struct mpib_ctl_device *got)
{
	struct mpib_message m;
	int rc = mpib_client_lock(c);

	if (rc < 0)
		return rc;
	rc = mpib_rpc_of(c, MPIB_CTL_DEVICE, device, &m, sizeof(*got));
	if (rc == 0) {
		mpib_message_close_fds(&m);
		memcpy(got, m.bytes, sizeof(*got));
	}
	mpib_client_unlock(c);
	return rc == -EPIPE && mpib_client_again(c) ? device_ask(c, device, got)
						    : rc;
}

int mpib_query_device(struct mpib_client *client, unsigned device,
		      struct mpib_device_info *info)
{
	struct mpib_ctl_device got;
	int rc = device_ask(client, device, &got);

	if (rc < 0)
		return rc;
	if (got.rails < 1 || got.rails > MPIB_RAILS)
		return mpib_fail(-EPROTO, "%s: nonsense about a device",
				 client->path);
	*info = (struct mpib_device_info){
		.rails = (int)got.rails,
		.carries = got.carries,
	};
	snprintf(info->name, sizeof(info->name), "%.*s",
		 (int)sizeof(got.name) - 1, got.name);
	for (unsigned i = 0; i < got.rails; i++)
		device_take_rail(&got.rail[i], &info->rail[i]);
	return 0;
}
