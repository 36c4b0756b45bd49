/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's state as JSON, for the stats socket and HTTP. All functions work
 * on a struct mpib_view, so tests can call them with a snapshot made by hand.
 * Control thread. Fields may be added but never change or go.
 *
 * Byte counts are payload per rail. The sum over open and closed connections is
 * the rail's count.
 */
#ifndef MPIB_PROXY_VIEW_H
#define MPIB_PROXY_VIEW_H

#include <jansson.h>
#include <stdio.h>

#include "client/client.h"
#include "engine/measure/snapshot.h"
#include "view/history.h"

#define MPIB_STATS_PROTO 1
/* For json_dumps(): 1.1, not 1.1000000000000001. */
#define MPIB_VIEW_DIGITS JSON_REAL_PRECISION(15)

struct mpib_agent_link;
struct mpib_cluster;

struct mpib_view_rail {
	char name[64];
	const char *label; /* what users call it: gpu0.SUP */
	const char *net; /* its device's name */
	char pci[16]; /* "" if none */
	bool standby; /* has payload only while SOUT is out */
	const char *provider;
};

struct mpib_view {
	const struct mpib_config *cfg;
	const struct proxy_clients *clients;
	const struct mpib_snapshot *snap; /* NULL for views that need none */
	const struct mpib_engine *engine; /* for histograms, or NULL */
	const struct mpib_history *history; /* or NULL */
	struct mpib_cluster *cluster; /* or NULL */
	const struct mpib_agent_link *agent; /* or NULL */
	struct mpib_view_rail rail[MPIB_RAILS_MAX]; /* by number */
	const char *run_dir;
	char peer_link[64];
	uint32_t pid;
	double uptime_s;
};

/* All functions below return a new reference, or NULL when memory is short. */
typedef json_t *mpib_view_fn(const struct mpib_view *v);
mpib_view_fn mpib_view_info, mpib_view_shards, mpib_view_rails,
	mpib_view_devices, mpib_view_jobs, mpib_view_clients, mpib_view_lanes,
	mpib_view_peers, mpib_view_config, mpib_view_hists;
/* What mpib-agent says of itself; JSON null: it said nothing. Needs no snapshot. */
mpib_view_fn mpib_view_agent;
/* For metrics: rails without what is read from files, and the clients that have been
 * attached longest. */
mpib_view_fn mpib_view_rails_quick;
json_t *mpib_view_clients_first(const struct mpib_view *v, unsigned most);
/* Whether mpib_view_why_part() has any. */
bool mpib_view_why_any(const struct mpib_view *v, uint64_t which);
/*
 * A long list as text, in parts, so that nothing waits for all of it: call it
 * again with the same part, which was begun, until there is no more.
 */
#define MPIB_VIEW_PART 16u /* items */
struct mpib_view_part {
	FILE *out; /* NULL: not begun */
	char *text; /* of out */
	size_t len;
	uint32_t at; /* of what is listed */
	bool listed; /* an item, so that a comma comes before the next */
	bool more;
	bool failed; /* there was no memory for it */
};
typedef void mpib_view_part_fn(const struct mpib_view *v, uint64_t arg,
			       struct mpib_view_part *part);
/* Begin a text in *part, which is all zero, or go on with it, and stays in place.
 * False: no memory. */
bool mpib_view_part_begin(struct mpib_view_part *part);
/* The text, which the caller frees; NULL: memory was short, there is more, or it was
 * not begun. *part is all zero again. */
char *mpib_view_part_end(struct mpib_view_part *part);
/* The connections of one client, or of all clients if client is 0. */
mpib_view_part_fn mpib_view_conns_part;
/* The splits of sending connections: of a client, in the high 32 bits, 0 of all,
 * its connection with the index in the low 32 bits, UINT32_MAX all of them. */
mpib_view_part_fn mpib_view_why_part;
/* The samples of the last so many seconds, needing no snapshot. */
mpib_view_part_fn mpib_view_history_part;
/* The histogram mpib_view_hist_find() gave, shifted left by 32, with the quantiles
 * of each connection of a client; of all clients if the low 32 bits are 0. */
mpib_view_part_fn mpib_view_hist_part;
/* Write value, of which the reference is dropped; as an item of the list. */
void mpib_view_dump(struct mpib_view_part *part, json_t *value);
void mpib_view_item(struct mpib_view_part *part, json_t *value);
/* Which histogram has the name, or -ENOENT. */
int mpib_view_hist_find(const char *name);
/* Requests of the snapshot that are at least older_ns old, oldest first. */
json_t *mpib_view_stuck(const struct mpib_view *v, uint64_t older_ns);
/* The names of the rails in a mask. */
json_t *mpib_view_rail_names(uint8_t mask);
/* The events of base/event.h's journal with a number above since. */
json_t *mpib_view_events(const struct mpib_view *v, uint64_t since);

/*
 * Counters of an RDMA port: one file per counter in hw_counters, the driver's, and
 * counters, those of all ports, of ROOT/class/infiniband/DEVICE/ports/PORT.
 */

/* All counters, {"name": n, ...}, under the driver's names; JSON null where the
 * port has none. root is "/sys", or a test's directory. */
json_t *mpib_hw_counters(const char *root, const char *device, unsigned port);
/* The sum of the counters of retransmissions; JSON null if counters is null. */
json_t *mpib_hw_retries(const json_t *counters);

#endif
