/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's state as JSON, for the stats socket and HTTP. All functions work
 * on a struct mpib_view, so tests can call them with a snapshot made by hand.
 * Control thread. New fields may be added; fields never change or disappear.
 *
 * Byte counts are payload per rail. A rail's count is the sum of the counts of
 * its open and closed connections.
 */
#ifndef MPIB_PROXY_VIEW_H
#define MPIB_PROXY_VIEW_H

#include <jansson.h>
#include <stdio.h>

#include "client/client.h"
#include "engine/measure/snapshot.h"
#include "view/history.h"

#define MPIB_STATS_PROTO 1
/* A flag for json_dumps(): print 1.1, not 1.1000000000000001. */
#define MPIB_VIEW_DIGITS JSON_REAL_PRECISION(15)

struct mpib_agent_link;
struct mpib_cluster;

struct mpib_view_rail {
	char name[64];
	const char *label; /* for users: gpu0.SUP */
	const char *net; /* name of its device */
	char pci[16]; /* "" if none */
	bool standby; /* carries payload only while SOUT has failed */
	const char *provider;
};

struct mpib_view {
	const struct mpib_config *cfg;
	const struct proxy_clients *clients;
	const struct mpib_snapshot *snap; /* may be NULL for some views */
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

/* All functions below return a new reference, or NULL if memory is short. */
typedef json_t *mpib_view_fn(const struct mpib_view *v);
mpib_view_fn mpib_view_info, mpib_view_shards, mpib_view_rails,
	mpib_view_devices, mpib_view_jobs, mpib_view_clients, mpib_view_lanes,
	mpib_view_peers, mpib_view_config, mpib_view_hists;
/* mpib-agent's report about itself; JSON null: no agent has reported. Needs no
 * snapshot. */
mpib_view_fn mpib_view_agent;
/* Write why a rail is drained: the operator's reason, or "agent: " and the
 * agent's reason. "": no reason, or the rail is not drained. */
void mpib_view_drain_why(const struct mpib_view *v, unsigned r,
			 char why[MPIB_DRAIN_WHY]);
/* These two are for metrics, which must be quick. mpib_view_rails_quick()
 * leaves out a rail's values that are read from files.
 * mpib_view_clients_first() returns only the `most` clients that have been
 * attached longest. */
mpib_view_fn mpib_view_rails_quick;
json_t *mpib_view_clients_first(const struct mpib_view *v, unsigned most);
/* Return whether mpib_view_why_part() would list a connection. */
bool mpib_view_why_any(const struct mpib_view *v, uint64_t which);
/*
 * A long list as text. It is made in parts, so that other work does not wait
 * for the whole list. For each part, call mpib_view_part_begin() and then the
 * list's mpib_view_part_fn, until part->more is false. Then get the text from
 * mpib_view_part_end().
 */
#define MPIB_VIEW_PART 16u /* items */
struct mpib_view_part {
	FILE *out; /* NULL: not begun */
	char *text; /* the text written to out */
	size_t len;
	uint32_t at; /* index of the next item */
	bool listed; /* an item was written, so the next needs a comma */
	bool more;
	bool failed; /* memory was short */
};
typedef void mpib_view_part_fn(const struct mpib_view *v, uint64_t arg,
			       struct mpib_view_part *part);
/* Begin a text in *part if that is all zero; otherwise continue the text. Until
 * mpib_view_part_end(), *part must not move. False: there is no memory. */
bool mpib_view_part_begin(struct mpib_view_part *part);
/* Return the text, which the caller frees, and zero *part. NULL: memory was
 * short, part->more is set, or the part was not begun. */
char *mpib_view_part_end(struct mpib_view_part *part);
/* List the connections of the client `arg`, or of all clients if `arg` is 0. */
mpib_view_part_fn mpib_view_conns_part;
/* List the splits of sending connections. The high 32 bits of `arg` are the
 * client; 0: all clients. The low 32 bits are the index of the client's
 * connection; UINT32_MAX: all connections. */
mpib_view_part_fn mpib_view_why_part;
/* List the samples of the last `arg` seconds. Needs no snapshot. */
mpib_view_part_fn mpib_view_history_part;
/* Write a histogram of all connections, and the quantiles of each connection of
 * a client. The high 32 bits of `arg` are the number that mpib_view_hist_find()
 * returned. The low 32 bits are the client; 0: all clients. */
mpib_view_part_fn mpib_view_hist_part;
/* Write `value` and drop its reference. mpib_view_item() writes `value` as an
 * item of a list. */
void mpib_view_dump(struct mpib_view_part *part, json_t *value);
void mpib_view_item(struct mpib_view_part *part, json_t *value);
/* Return the number of the histogram of that name, or -ENOENT. */
int mpib_view_hist_find(const char *name);
/* Return the requests of the snapshot that are at least older_ns old, oldest
 * first. */
json_t *mpib_view_stuck(const struct mpib_view *v, uint64_t older_ns);
/* Return the names of the rails in a mask. */
json_t *mpib_view_rail_names(uint8_t mask);
/* Return the events of base/event.h's journal whose number is greater than
 * `since`. */
json_t *mpib_view_events(const struct mpib_view *v, uint64_t since);

/*
 * Counters of an RDMA port. Each is a file below
 * ROOT/class/infiniband/DEVICE/ports/PORT. The directory hw_counters has those
 * of the driver, and the directory counters has the standard ones.
 */

/* Return all counters, {"name": n, ...}, under the driver's names; JSON null if
 * the port has none. `root` is "/sys", or a test's directory. */
json_t *mpib_hw_counters(const char *root, const char *device, unsigned port);
/* Return the sum of the retransmission counters; JSON null if `counters` is
 * null. */
json_t *mpib_hw_retries(const json_t *counters);

#endif
