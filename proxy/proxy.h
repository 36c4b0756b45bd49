/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running proxy: what it is made of, brought up in order and taken down in
 * the reverse one. Control thread only.
 */
#ifndef MPIB_PROXY_PROXY_H
#define MPIB_PROXY_PROXY_H

#include "base/loop.h"
#include "client/client.h"
#include "config/config.h"
#include "handover/readopt.h"
#include "handover/takeover.h"
#include "publish.h"
#include "rundir.h"
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
	int control, stats_fd, metrics_fd;
	bool activated; /* control is systemd's, with its path */
	bool serving; /* clients are up */
	bool misconfigured; /* it did not start, nor will it unchanged */
	struct proxy_clients clients;
	struct mpib_stats *stats;
	struct mpib_metrics metrics;
	struct mpib_admin admin;
	struct mpib_view view;
	struct mpib_timer status_timer;
	struct mpib_upgrade upgrade;
	struct mpib_readopt readopt;
	struct mpib_takeover *takeover; /* of another proxy; NULL: of none */
};

/* cfg is complete, and so are upgrade and takeover. SIGTERM, SIGINT and SIGQUIT
 * are blocked and end the loop, SIGUSR2 upgrades. -errno and why as in
 * config.h; then nothing is left of it. One that should take over has told the
 * other proxy why it cannot, and has touched nothing of what that serves. */
int mpib_proxy_start(struct mpib_proxy *p, char *why);
/* "ready ...", once it started. */
void mpib_proxy_ready_line(const struct mpib_proxy *p, char *buf, size_t len);
/* Until a signal asks to stop. */
int mpib_proxy_run(struct mpib_proxy *p);
/* The page for browsers is served, or its port is left to another. */
void mpib_proxy_http(struct mpib_proxy *p, bool on);
/* What another proxy needs to get ready. */
void mpib_proxy_base(const struct mpib_proxy *p, struct mpib_base *b);
/* Ends what started; within 1 s, whatever peers and clients do. */
void mpib_proxy_stop(struct mpib_proxy *p);

#endif
