/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the proxy's parts start. Control thread. */
#include "start.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "notify.h"
#include "peer/broker.h"
#include "rails/describe.h"
#include "rails/numa.h"
#include "sockets.h"
#include "stats/state.h"

static bool start_cpus_near(int node, cpu_set_t *cpus)
{
	if (!mpib_numa_cpus(node, cpus))
		return false;
	mpib_info("a shard runs on the %d CPUs of NUMA node %d, where its HCA "
		  "is",
		  CPU_COUNT(cpus), node);
	return true;
}

static int start_open_engine(struct mpib_proxy *p, char *why)
{
	char reason[300];
	int rc;

	p->cfg.engine.cpus_near = p->cfg.pin ? start_cpus_near : NULL;
	rc = mpib_engine_open(&p->cfg.engine, &mpib_broker_events, &p->broker,
			      &p->engine, reason, sizeof(reason));
	mpib_numa_forget();
	if (rc < 0) {
		p->engine = NULL;
		p->misconfigured = true;
		snprintf(why, MPIB_WHY_MAX, "rails: %s", reason);
	}
	return rc;
}

/* The user may be missing: the default has to be made only for an agent. */
static uid_t user_of(const char *name)
{
	const struct passwd *pw = name[0] ? getpwnam(name) : NULL;

	return pw ? pw->pw_uid : MPIB_AGENT_NO_USER;
}

static int open_agent(struct mpib_proxy *p, char *why)
{
	bool adaptive = p->cfg.engine.mode == MPIB_MODE_ADAPTIVE;
	int rc;

	/* In adaptive mode only where somebody says that there may be one. */
	if (p->cfg.engine.mode != MPIB_MODE_ADVANCED &&
	    !(adaptive && mpib_config_given(&p->cfg, "agent", "dir")))
		return 0;
	rc = mpib_agent_open(&p->loop, p->engine, p->cfg.agent_dir,
			     user_of(p->cfg.agent_user), adaptive, &p->agent);
	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "agent: %s", strerror(-rc));
	return rc;
}

static void fill_view(struct mpib_proxy *p)
{
	struct mpib_view *v = &p->view;
	char line[300];

	v->cfg = &p->cfg;
	v->clients = &p->clients;
	v->engine = p->engine;
	v->history = &p->history;
	v->agent = p->agent;
	v->cluster = &p->cluster;
	v->run_dir = p->rundir.path;
	v->pid = (uint32_t)getpid();
	for (unsigned r = 0; r < mpib_config_rail_total(&p->cfg); r++) {
		struct mpib_view_rail *rail = &v->rail[r];
		struct mpib_port_info port = { 0 };
		bool there = mpib_engine_port(p->engine, r, &port) == 0;
		const char *slash;

		mpib_config_rail_name(&p->cfg, r, rail->name,
				      sizeof(rail->name));
		mpib_config_rail_label(&p->cfg, r, rail->label,
				       sizeof(rail->label));
		slash = strrchr(mpib_engine_place(p->engine, r), '/');
		snprintf(rail->pci, sizeof(rail->pci), "%.15s",
			 slash ? slash + 1 : "");
		rail->standby = p->cfg.standby &&
				r % p->cfg.engine.rails == MPIB_RAIL_SUP;
		rail->net = mpib_config_rail_device(&p->cfg, r);
		rail->provider = mpib_engine_provider(p->engine, r);
		if (!there)
			continue; /* which the log has already */
		mpib_rail_describe(rail->label, rail->name, &port, line,
				   sizeof(line));
		mpib_info("%s", line);
	}
}

/* Those of the last proxy. */
static void expect_clients(struct mpib_proxy *p)
{
	uint64_t grace = p->cfg.engine.resume ? p->cfg.resume_grace : 0;
	int rc = mpib_survivors_open(&p->clients.survivors, p->rundir.dir,
				     grace * MPIB_SEC);

	if (rc < 0)
		mpib_warn("%s/" MPIB_SURVIVORS_FILE ": %s: new clients may "
			  "take the room of those that come back (free some "
			  "space)",
			  p->rundir.path, strerror(-rc));
}

static int open_clients(struct mpib_proxy *p, char *why)
{
	int rc = proxy_clients_init(&p->clients, &p->loop, p->engine, p->broker,
				    &p->cfg, p->control);

	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "control thread: %s",
			 strerror(-rc));
	p->serving = rc == 0;
	if (rc == 0)
		expect_clients(p);
	return rc;
}

static int open_metrics(struct mpib_proxy *p, char *why)
{
	fill_view(p);
	return mpib_metrics_open(&p->metrics, &p->loop, p->engine, &p->view,
				 &p->history, why);
}

/* Open the sockets of statistics, one of them with commands that change something. */
static int open_stats(struct mpib_proxy *p, char *why)
{
	const struct mpib_stats_sockets sockets = {
		.fd = { p->stats_fd, p->admin_fd, p->metrics_fd },
		.gather = &p->metrics.kept,
		.shared = &p->metrics.gather,
	};
	int rc;

	p->admin = (struct mpib_admin){ .cfg = &p->cfg,
					.clients = &p->clients,
					.engine = p->engine,
					.plays = &p->plays,
					.upgrade = &p->upgrade,
					.run_dir = &p->rundir.dir };
	mpib_plays_init(&p->plays, &p->loop, p->engine, &p->cfg);
	rc = mpib_stats_open(&sockets, &p->view, &p->admin, &p->stats);
	if (rc < 0) {
		p->stats = NULL;
		return mpib_why_fail(why, rc, "control thread: %s",
				     strerror(-rc));
	}
	mpib_state_load(&p->admin);
	mpib_event(MPIB_LOG_DEBUG, "start", NULL, "mpib-proxy %s serves %s",
		   MPIB_VERSION, p->rundir.path);
	return 0;
}

static int open_parts(struct mpib_proxy *p, char *why)
{
	/* A successor has opened them already. */
	int rc = p->engine ? 0 : start_open_engine(p, why);

	if (rc == 0)
		rc = open_agent(p, why);
	if (rc == 0)
		rc = mpib_start_peer_link(p, why);
	return rc;
}

/* Keep events in their file, if there is to be one. */
static void keep_events(const struct mpib_config *cfg, const char *run_dir)
{
	const char *state = getenv("STATE_DIRECTORY");
	char path[sizeof(cfg->events_file)];
	int rc;

	snprintf(path, sizeof(path), "%s", cfg->events_file);
	if (!strcmp(path, "auto")) {
		snprintf(path, sizeof(path), "%.*s/events",
			 (int)(state ? strcspn(state, ":") : PATH_MAX),
			 state ? state : run_dir);
	}
	if (!path[0])
		return;
	rc = mpib_events_file(path);
	if (rc < 0)
		mpib_warn("log.events = %s: %s (give a file in a directory "
			  "that the proxy may write to, or nothing)",
			  path, strerror(-rc));
}

/* The kernel releases the predecessor's lock when that process has ended. */
#define LOCK_WITHIN (60 * MPIB_SEC)

/* Open the rails beside the running proxy, then lock the run directory after it. */
static int start_succeed(struct mpib_proxy *p, char *why)
{
	uint64_t until;
	int rc = start_open_engine(p, why);

	if (rc == 0)
		rc = mpib_succession_wait(&p->cfg, why);
	if (rc < 0)
		return rc;
	until = mpib_now_ns() + LOCK_WITHIN;
	do {
		rc = mpib_rundir_open(&p->rundir, p->cfg.run_dir,
				      p->cfg.run_group, why);
	} while (rc == -EBUSY && mpib_now_ns() < until && usleep(1000) == 0);
	return rc;
}

int mpib_start(struct mpib_proxy *p, char *why)
{
	int rc = mpib_succession()
			 ? start_succeed(p, why)
			 : mpib_rundir_open(&p->rundir, p->cfg.run_dir,
					    p->cfg.run_group, why);

	if (rc == 0)
		rc = mpib_rundir_write_pid(&p->rundir, getpid(), why);
	if (rc == 0)
		keep_events(&p->cfg, p->rundir.path);
	if (rc == 0)
		rc = open_parts(p, why);
	if (rc == 0)
		rc = mpib_sockets_open(p, why);
	if (rc == 0)
		rc = open_clients(p, why);
	if (rc == 0)
		rc = open_metrics(p, why);
	if (rc == 0)
		rc = open_stats(p, why);
	if (rc == 0)
		mpib_return_start(&p->returns, p);
	return rc;
}
