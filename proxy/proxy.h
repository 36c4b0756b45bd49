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
#include "stats/play.h"
#include "stats/stats.h"
#include "upgrade/upgrade.h"
#include "view/history.h"
#include "web/http.h"

/* Snapshots for the readers of statistics, the history of the last hour, and HTTP
 * with a page for browsers where an address is set. */
struct mpib_metrics {
	struct mpib_gather gather;
	/* For the stats socket. Its readers keep a snapshot for long; with a
	 * snapshot of their own, no scrape waits for them. */
	struct mpib_gather kept;
	struct mpib_http *http; /* NULL: no address is set */
	struct mpib_history *history; /* NULL: no memory for it */
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
	struct mpib_agent_link *agent; /* advanced mode */
	struct mpib_broker *broker;
	struct in6_addr peer_link; /* address of the broker */
	int control, stats_fd, admin_fd;
	bool activated; /* systemd made control, and owns its path */
	bool serving; /* clients is initialized */
	bool misconfigured; /* start failed, and will fail until reconfigured */
	struct proxy_clients clients;
	struct mpib_stats *stats;
	struct mpib_metrics metrics;
	struct mpib_history history;
	struct mpib_admin admin;
	struct mpib_plays plays;
	struct mpib_view view;
	struct mpib_cluster cluster;
	struct mpib_timer status_timer;
	struct mpib_return returns;
	struct mpib_upgrade upgrade;
};

/* Start all parts. The caller has filled in cfg. SIGTERM, SIGINT and SIGQUIT are
 * blocked and then end the loop. -errno, with why as in config.h: then all is
 * stopped again. */
int mpib_proxy_start(struct mpib_proxy *p, char *why);
/* The line "ready ..." that a started proxy prints. */
void mpib_proxy_ready_line(const struct mpib_proxy *p, char *buf, size_t len);
/* Run the loop until a signal stops it. -errno. */
int mpib_proxy_run(struct mpib_proxy *p);
/* End a proxy, whose process ends next: silently, whatever peers and clients do. */
void mpib_proxy_stop(struct mpib_proxy *p);

/* peer_link.c: open the broker, with the peer link's address and key. -errno, with
 * why as in config.h. */
int mpib_start_peer_link(struct mpib_proxy *p, char *why);
/* Let it accept peer links. */
int mpib_serve_peer_link(struct mpib_proxy *p, char *why);

#endif
