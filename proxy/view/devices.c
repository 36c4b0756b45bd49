/* SPDX-License-Identifier: Apache-2.0 */
/* The devices as JSON. */
#include "view/fields.h"

static json_t *devices_rails(const struct mpib_view *v, unsigned first)
{
	json_t *list = json_array();

	for (unsigned r = first; r < first + v->snap->rails; r++)
		json_array_append_new(
			list, json_pack("{ss ss ss ss sb sb}", "name",
					mpib_rail_name(r - first), "device",
					v->rail[r].name, "pci", v->rail[r].pci,
					"state",
					v->snap->rail[r].up ? "active" : "down",
					"down", !v->snap->rail[r].up, "standby",
					v->rail[r].standby));
	return list;
}

static json_t *view_device(const struct mpib_view *v, unsigned d)
{
	unsigned shards = v->snap->shards / v->snap->devices;
	unsigned first = d * v->snap->rails;
	uint64_t tx = 0, rx = 0, speed = 0;
	json_int_t clients = 0, conns = 0;

	for (unsigned r = first; r < first + v->snap->rails; r++) {
		if (!v->rail[r].standby)
			speed += v->snap->rail[r].speed_mbps;
		tx += v->snap->rail[r].n.tx_bytes;
		rx += v->snap->rail[r].n.rx_bytes;
	}
	for (unsigned i = d * shards; i < (d + 1) * shards; i++)
		clients += v->clients->on_shard[i];
	for (uint32_t i = 0; i < v->snap->conns; i++)
		conns += v->snap->conn[i].shard / shards == d;
	return json_pack("{sI so so ss sI sI sI sI sI sI}", "index",
			 (json_int_t)d, "net", mpib_field_net(v, d * shards),
			 "rails", devices_rails(v, first), "why",
			 v->cfg->why_devices[0] ? v->cfg->why_devices
						: v->cfg->device[d].origin,
			 "shards", (json_int_t)shards, "speed_mbps",
			 (json_int_t)speed, "clients", clients, "connections",
			 conns, "tx_bytes", (json_int_t)tx, "rx_bytes",
			 (json_int_t)rx);
}

json_t *mpib_view_devices(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned d = 0; d < v->snap->devices; d++)
		json_array_append_new(list, view_device(v, d));
	return list;
}
