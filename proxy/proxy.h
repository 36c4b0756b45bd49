/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running proxy: its parts, started in order and stopped in reverse order.
 * Control thread only.
 */
#ifndef MPIB_PROXY_PROXY_H
#define MPIB_PROXY_PROXY_H

#include "base/loop.h"
#include "client/client.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "metrics/gather.h"
#include "return.h"
#include "rundir.h"
#include "stats/stats.h"
#include "upgrade/upgrade.h"
#include "view/history.h"
#include "web/http.h"

/* Snapshots for the readers of statistics, and the history of the last hour. If
 * an address is set, also HTTP with a page for browsers. */
struct mpib_metrics {
	struct mpib_gather gather;
	/* Snapshots for the stats socket, whose readers keep a snapshot for a
	 * long time. These snapshots are separate, so that no scrape waits for
	 * those readers. */
	struct mpib_gather kept;
	struct mpib_http *http; /* NULL: no address is set */
	struct mpib_history history;
	struct mpib_gather_wait sample;
	struct mpib_timer next_sample;
};

struct mpib_proxy {
	struct mpib_config cfg;
	struct mpib_loop loop;
	struct mpib_rundir rundir;
	int signals;
	struct mpib_io signal_watch;
	struct mpib_engine *engine;
	struct mpib_agent_link *agent; /* NULL: the mode needs no agent */
	struct mpib_timer agent_timer;
	uint32_t drained_sick; /* as the last event said */
	struct mpib_broker *broker;
	struct in6_addr peer_link; /* address of the broker */
	int control, stats_fd, admin_fd;
	bool activated; /* systemd made `control`, and owns its path */
	bool serving; /* `clients` is initialized */
	bool misconfigured; /* the configuration made the start fail */
	struct proxy_clients clients;
	struct mpib_stats *stats;
	struct mpib_metrics metrics;
	struct mpib_admin admin;
	struct mpib_view view;
	struct mpib_cluster cluster;
	struct mpib_timer status_timer;
	struct mpib_return returns;
	struct mpib_upgrade upgrade;
};

/* Start all parts. The caller has filled in cfg. SIGTERM, SIGINT and SIGQUIT
 * are blocked, and from then on end the loop. On failure, all parts are stopped
 * again, and `why` is set as in config.h. Returns 0 or -errno. */
int mpib_proxy_start(struct mpib_proxy *p, char *why);
/* Write the line "ready ..." that a started proxy prints. */
void mpib_proxy_ready_line(const struct mpib_proxy *p, char *buf, size_t len);
/* Run the loop until a signal stops it. Returns 0 or -errno. */
int mpib_proxy_run(struct mpib_proxy *p);
/* Stop the proxy, just before its process exits. Peers and clients get no
 * messages. */
void mpib_proxy_stop(struct mpib_proxy *p);

/* peer_link.c: open the broker, with the peer link's address and key. Returns
 * 0, or -errno with `why` as in config.h. */
int mpib_start_peer_link(struct mpib_proxy *p, char *why);
/* Let the broker accept peer links. */
int mpib_serve_peer_link(struct mpib_proxy *p, char *why);

#endif
