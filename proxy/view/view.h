/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy shows of itself, as JSON. Built from plain data, so that it says
 * the same of a snapshot made by hand. Fields are only ever added.
 *
 * Bytes are payload and by rail. Those of open connections and of the closed
 * ones add up to the rail's.
 */
#ifndef MPIB_PROXY_VIEW_H
#define MPIB_PROXY_VIEW_H

#include <jansson.h>

#include "client/client.h"
#include "engine/measure/snapshot.h"

#define MPIB_STATS_PROTO 1

struct mpib_view_rail {
	char name[64];
	const char *provider;
	uint64_t speed_mbps;
	uint8_t mtu; /* enum ibv_mtu */
	union ibv_gid gid;
};

struct mpib_view {
	const struct mpib_config *cfg;
	const struct proxy_clients *clients;
	const struct mpib_snapshot *snap; /* for what wants one */
	const struct mpib_engine *engine; /* for histograms, or NULL */
	struct mpib_view_rail rail[MPIB_RAILS];
	const char *run_dir;
	char peer_link[64];
	uint32_t pid;
	uint32_t upgrades; /* live, since the first of these proxies started */
	double uptime_s;
};

/* One word; mpib_rail_cause_name() is for sentences. */
const char *mpib_view_cause_name(enum mpib_rail_cause cause);

/* A new reference, NULL when memory is short. */
typedef json_t *mpib_view_fn(const struct mpib_view *v);
mpib_view_fn mpib_view_info, mpib_view_shards, mpib_view_rails,
	mpib_view_clients, mpib_view_conns, mpib_view_lanes, mpib_view_peers,
	mpib_view_config, mpib_view_monitor;
/* How a lane spreads parts over QPs. */
json_t *mpib_view_spread(const struct mpib_view *v,
			 const struct mpib_snap_lane *lane);
/* Sending connections; client 0: of all, index UINT32_MAX: all of it. */
json_t *mpib_view_why_of(const struct mpib_view *v, uint32_t client,
			 uint32_t index);
/* Of one client; 0: of all. */
json_t *mpib_view_conns_of(const struct mpib_view *v, uint32_t client);
/* A histogram by name, of a client's connections or (0) of all; NULL name: the
 * quantiles of all of them. NULL also when there is none of that name. */
json_t *mpib_view_hist(const struct mpib_view *v, const char *name,
		       uint32_t client);
/* Requests of the snapshot that are at least so old, the oldest first. */
json_t *mpib_view_stuck(const struct mpib_view *v, uint64_t older_ns);
/* The journal of base/event.h, after event number since. */
json_t *mpib_view_events(uint64_t since);

#endif
