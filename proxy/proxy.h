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
#include "handover/readopt.h"
#include "handover/takeover.h"
#include "publish.h"
#include "rundir.h"
#include "stats/play.h"
#include "stats/stats.h"
#include "stats/upgrade.h"

struct mpib_proxy {
	struct mpib_config cfg;
	struct mpib_loop loop;
	struct mpib_rundir rundir;
	int signals;
	struct mpib_io signal_watch;
	struct mpib_engine *engine;
	struct mpib_agent_link *agent; /* advanced mode */
	struct mpib_broker *broker;
	int control, stats_fd, metrics_fd, admin_fd;
	bool activated; /* systemd made control, and owns its path */
	bool serving; /* clients is initialized */
	bool misconfigured; /* start failed, and will until reconfigured */
	struct proxy_clients clients;
	struct mpib_stats *stats;
	struct mpib_metrics metrics;
	struct mpib_history history;
	struct mpib_admin admin;
	struct mpib_plays plays;
	struct mpib_view view;
	struct mpib_cluster cluster;
	struct mpib_timer status_timer, tell_again;
	struct mpib_upgrade upgrade;
	struct mpib_readopt readopt;
	/* The take-over by which this proxy started; NULL: started afresh. */
	struct mpib_takeover *takeover;
};

/* Start all parts. The caller has filled in cfg, upgrade and takeover. SIGTERM,
 * SIGINT and SIGQUIT are blocked and then end the loop, SIGUSR2 begins an
 * upgrade. -errno, with why as in config.h: then all is stopped again. Where
 * this process cannot take over, it tells the old proxy and exits, having
 * touched nothing that the old proxy serves. */
int mpib_proxy_start(struct mpib_proxy *p, char *why);
/* The line "ready ..." that a started proxy prints. */
void mpib_proxy_ready_line(const struct mpib_proxy *p, char *buf, size_t len);
/* Run the loop until a signal stops it. -errno. */
int mpib_proxy_run(struct mpib_proxy *p);
/* on: serve HTTP where it is configured; off: leave its port to the new proxy
 * of a hand-over. */
void mpib_proxy_http(struct mpib_proxy *p, bool on);
/* Fill in what a new proxy needs to get ready for a hand-over. */
void mpib_proxy_base(const struct mpib_proxy *p, struct mpib_base *b);
/* Stop whatever was started; within 1 s, whatever peers and clients do. */
void mpib_proxy_stop(struct mpib_proxy *p);

#endif
