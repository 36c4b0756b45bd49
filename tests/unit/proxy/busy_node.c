/* SPDX-License-Identifier: Apache-2.0 */
#include "busy_node.h"

#include <stdio.h>
#include <string.h>

#include "peer/internal.h"

#define FLOWS 4 /* connections of a client */

static struct proxy_client client[BUSY_CLIENTS_MAX];
static struct mpib_snap_conn conn[BUSY_CLIENTS_MAX * FLOWS];
static struct mpib_snap_client past[BUSY_CLIENTS_MAX];
static struct mpib_snap_lane lane[16];
static struct proxy_clients all_clients;
static struct mpib_broker broker; /* without lanes */
static struct mpib_snapshot snap;
static struct mpib_config cfg;
static struct mpib_view view;

static void add_client(unsigned i)
{
	struct proxy_client *s = &client[i];

	s->id = i + 1;
	s->pid = 1000 + i;
	s->uid = 1000 + i % 20;
	s->state = PROXY_CLIENT_LIVE;
	s->registered = 4096 + i;
	s->region_count = 1 + i;
	s->peer_client.engine_client =
		(struct engine_client *)s; /* any pointer except NULL */
	snprintf(s->name, sizeof(s->name), "rank \"%u\" \\ {a=b}", i);
	TAILQ_INSERT_TAIL(&all_clients.list, s, link);
	for (unsigned f = 0; f < FLOWS; f++) {
		struct mpib_snap_conn *fl = &conn[i * FLOWS + f];

		*fl = (struct mpib_snap_conn){
			.client = s->id,
			.index = f,
			.sender = f & 1,
			.peer = "127.46.0.9:24790",
			.outstanding = 3,
			.messages = 100 + f,
			.stalls = { 0, 5, 6, 7, 8 },
			.n = { { .tx_bytes = 1000, .rx_bytes = 500 },
			       { .tx_bytes = 100, .rx_bytes = 50 } },
		};
	}
	past[i] = (struct mpib_snap_client){
		.id = s->id,
		.closed = { { .tx_bytes = 7 }, { .rx_bytes = 9 } },
	};
}

static void add_rails(void)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		snap.rail[r] = (struct mpib_snap_rail){
			.n = { .tx_bytes = UINT64_C(9007199254740993),
			       .rx_bytes = 22,
			       .tx_wrs = 33,
			       .rx_imms = 44,
			       .cts = 55 },
			.cqes = 66,
			.cqe_errors = 1,
			.posts = 77,
			.srq_posted = 88,
			.qps = 6,
			.up = true,
		};
}

const struct mpib_view *busy_node(unsigned clients, unsigned shards)
{
	memset(&all_clients, 0, sizeof(all_clients));
	TAILQ_INIT(&all_clients.list);
	for (unsigned i = 0; i < clients; i++)
		add_client(i);
	mpib_config_init(&cfg);
	all_clients.usage = (struct mpib_usage){
		.attached = clients,
		.leaving = 1,
		.regions = clients,
		.registered = UINT64_C(1) << 60,
		.mapped = 1 << 20,
	};
	all_clients.cfg = &cfg;
	all_clients.broker = &broker;
	for (unsigned q = 0; q < MPIB_QUOTAS; q++)
		all_clients.most[q] = q == MPIB_QUOTA_MEMORY ? 0 : 100000;
	all_clients.refused = 1;
	all_clients.rejected = 2;
	for (unsigned i = 0; i < 16; i++)
		lane[i] = (struct mpib_snap_lane){ .peer = "127.46.0.9:24790",
						   .conns = 1 };
	snap = (struct mpib_snapshot){
		.devices = 1,
		.rails = MPIB_RAILS,
		.shards = shards,
		.conns = clients * FLOWS,
		.lanes = 16,
		.clients = clients,
		.conn = conn,
		.lane = lane,
		.client = past,
	};
	add_rails();
	snap.rail[0].speed_mbps = 400000;
	for (unsigned i = 0; i < shards; i++)
		snap.shard[i] = (struct mpib_snap_shard){ .turns = 1000,
							  .busy_turns = 250,
							  .sleeps = 3 };
	view = (struct mpib_view){
		.cfg = &cfg,
		.clients = &all_clients,
		.snap = &snap,
		.rail = { { "soft:127.46.0.1", "SOUT", .provider = "soft" },
			  { "soft:127.46.0.2", "SUP", .provider = "soft" } },
		.run_dir = "/run/mpib",
		.pid = 42,
		.uptime_s = 12.5,
	};
	return &view;
}
