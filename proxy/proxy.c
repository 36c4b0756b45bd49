/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's control thread: signals, start, loop and stop. */
#include "proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/event.h"
#include "base/log.h"
#include "daemon.h"
#include "peer/broker.h"
#include "rails/discover.h"
#include "rundir.h"
#include "stats/state.h"
#include "verbs/hca/hca.h"

/* The initial size of the table of descriptors, with 8 bytes per entry. The
 * clients of a node use fewer descriptors than this. */
#define TABLE 16384

/* Every MPIB_HISTORY_PERIOD_S, add a sample to the history. */
static void sample_on_time(void *arg);

static void sample_on_view(void *arg, const struct mpib_view *v)
{
	struct mpib_metrics *m = arg;

	if (v)
		mpib_history_add(&m->history, v, mpib_clock_ns(CLOCK_REALTIME));
	mpib_timer_arm(m->gather.loop, &m->next_sample,
		       MPIB_HISTORY_PERIOD_S * MPIB_SEC, sample_on_time, m);
}

static void sample_on_time(void *arg)
{
	struct mpib_metrics *m = arg;

	mpib_gather_ask(&m->gather, &m->sample, sample_on_view, m);
}

static void keep_history(struct mpib_metrics *m)
{
	if (mpib_history_init(&m->history,
			      mpib_config_rail_total(m->gather.view.cfg)) < 0)
		mpib_warn("history: out of memory: disabled");
	else
		sample_on_time(m);
}

/* Start the proxy's parts in order. */

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

/* Return the uid of the user `name`, or MPIB_AGENT_NO_USER if there is no such
 * user. A node without an agent need not have the default user. */
static uid_t user_of(const char *name)
{
	const struct passwd *pw = name[0] ? getpwnam(name) : NULL;

	return pw ? pw->pw_uid : MPIB_AGENT_NO_USER;
}

static int open_agent(struct mpib_proxy *p, char *why)
{
	bool adaptive = p->cfg.engine.mode == MPIB_MODE_ADAPTIVE;
	int rc;

	/* In adaptive mode, use an agent only if agent.dir is set. */
	if (p->cfg.engine.mode != MPIB_MODE_ADVANCED &&
	    !(adaptive && mpib_config_given(&p->cfg, "agent", "dir")))
		return 0;
	rc = mpib_agent_open(&p->loop, p->engine, p->cfg.agent_dir,
			     user_of(p->cfg.agent_user), adaptive, &p->agent);
	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "agent: %s", strerror(-rc));
	return rc;
}

/* Add an event: the agent's drain of a rail begins or ends. */
static void tell_sick(const struct mpib_proxy *p, unsigned r, bool on)
{
	pid_t pid;
	const struct mpib_agent_summary *s = mpib_agent_heard(p->agent, &pid);
	const char *why = on && s ? s->rail[r % p->cfg.engine.rails].why : "";

	mpib_event(MPIB_LOG_WARN, on ? "drain" : "resume",
		   &(struct mpib_event_about){ .rails = 1u << r },
		   "rail %s is %s by the agent%s%s",
		   p->cfg.engine.rail[r].label, on ? "drained" : "resumed",
		   *why ? ": " : "", why);
}

/* Drain the rails that the agent calls sick, and look again later. After a
 * change, wait longer, because each change sends messages to the peers. */
static void drain_sick(void *arg)
{
	struct mpib_proxy *p = arg;
	uint32_t now, changed, told;

	mpib_engine_drain_sick(p->engine, mpib_agent_sick(p->agent));
	now = mpib_engine_drained_sick(p->engine);
	changed = now ^ p->drained_sick;
	/* A rail that an operator has drained meanwhile is not resumed. */
	told = changed & (now | ~mpib_engine_drained(p->engine));
	for (unsigned r = 0; r < mpib_config_rail_total(&p->cfg); r++) {
		if (told >> r & 1)
			tell_sick(p, r, now >> r & 1);
	}
	p->drained_sick = now;
	mpib_timer_arm(&p->loop, &p->agent_timer,
		       changed ? 5 * MPIB_SEC : MPIB_SEC, drain_sick, p);
}

static void fill_view(struct mpib_proxy *p)
{
	struct mpib_view *v = &p->view;
	char line[300];

	v->cfg = &p->cfg;
	v->clients = &p->clients;
	v->engine = p->engine;
	v->history = &p->metrics.history;
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
		rail->label = p->cfg.engine.rail[r].label;
		slash = strrchr(mpib_engine_place(p->engine, r), '/');
		snprintf(rail->pci, sizeof(rail->pci), "%.15s",
			 slash ? slash + 1 : "");
		rail->standby = p->cfg.standby &&
				r % p->cfg.engine.rails == MPIB_RAIL_SUP;
		rail->net = mpib_config_rail_device(&p->cfg, r);
		rail->provider = mpib_engine_provider(p->engine, r);
		if (!there)
			continue; /* the log has the reason already */
		mpib_rail_describe(rail->label, rail->name, &port, line,
				   sizeof(line));
		mpib_info("%s", line);
	}
}

/* Expect the clients of the last proxy. */
static void expect_clients(struct mpib_proxy *p)
{
	uint64_t grace = p->cfg.engine.resume ? p->cfg.resume_grace : 0;
	int rc = mpib_survivors_open(&p->clients.survivors, p->rundir.dir,
				     grace * MPIB_SEC);

	if (rc < 0)
		mpib_warn("%s/" MPIB_SURVIVORS_FILE ": %s: new clients may "
			  "take the places of clients that resume (free some "
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
	return rc;
}

static int serve_clients(struct mpib_proxy *p, char *why)
{
	int rc = p->serving ? 0 : open_clients(p, why);

	if (rc < 0)
		return rc;
	expect_clients(p);
	proxy_clients_serve(&p->clients);
	return 0;
}

/* Start snapshots for all readers, HTTP if an address is set, and the
 * history. */
static int open_metrics(struct mpib_proxy *p, char *why)
{
	struct mpib_metrics *m = &p->metrics;
	int rc = 0;

	fill_view(p);
	mpib_gather_init(&m->gather, &p->loop, p->engine, &p->view);
	mpib_gather_init(&m->kept, &p->loop, p->engine, &p->view);
	if (p->cfg.metrics_listen[0])
		rc = mpib_http_open(&m->gather, &p->cfg, &m->http, why);
	if (rc == 0)
		keep_history(m);
	return rc;
}

/* Open the stats socket and the admin socket, which also accepts commands that
 * change something. */
static int open_stats(struct mpib_proxy *p, char *why)
{
	const struct mpib_stats_sockets sockets = {
		.fd = { p->stats_fd, p->admin_fd },
		.gather = &p->metrics.kept,
	};
	int rc;

	p->admin = (struct mpib_admin){ .cfg = &p->cfg,
					.clients = &p->clients,
					.engine = p->engine,
					.upgrade = &p->upgrade,
					.run_dir = &p->rundir.dir };
	rc = mpib_stats_open(&sockets, &p->view, &p->admin, &p->stats);
	if (rc < 0)
		return mpib_why_fail(why, rc, "control thread: %s",
				     strerror(-rc));
	mpib_state_load(&p->admin);
	/* Apply the shares also to clients that attached during an upgrade. */
	mpib_shares_apply(&p->clients);
	mpib_event(MPIB_LOG_DEBUG, "start", NULL, "mpib-proxy %s serves %s",
		   MPIB_VERSION, p->rundir.path);
	return 0;
}

static int open_parts(struct mpib_proxy *p, char *why)
{
	int rc = p->engine ? 0 : start_open_engine(p, why);

	if (rc == 0)
		rc = open_agent(p, why);
	if (rc == 0 && !p->broker)
		rc = mpib_start_peer_link(p, why);
	if (rc == 0)
		rc = mpib_serve_peer_link(p, why);
	return rc;
}

/* Open the file of events, if one is configured. */
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

/* The time limit for the lock. The kernel releases the predecessor's lock when
 * that process has ended. */
#define LOCK_WITHIN (60 * MPIB_SEC)

/* Start as a successor: open the rails and attach the clients while the running
 * proxy serves. When that proxy has ended, lock the run directory. */
static int start_succeed(struct mpib_proxy *p, char *why)
{
	uint64_t until;
	int rc = start_open_engine(p, why);

	if (rc == 0)
		rc = mpib_succession_take(&p->cfg, &p->control, why);
	if (rc == 0)
		rc = mpib_start_peer_link(p, why);
	if (rc == 0)
		rc = open_clients(p, why);
	p->clients.awaits = true;
	if (rc == 0)
		rc = mpib_succession_wait(&p->loop, why);
	if (rc < 0)
		return rc;
	until = mpib_now_ns() + LOCK_WITHIN;
	do {
		rc = mpib_rundir_open(&p->rundir, p->cfg.run_dir,
				      p->cfg.run_group, why);
	} while (rc == -EBUSY && mpib_now_ns() < until && usleep(1000) == 0);
	return rc;
}

static int start_parts(struct mpib_proxy *p, char *why)
{
	int before = 0; /* pid of a proxy that ended without stopping */
	bool succeeds = mpib_succession();
	int rc = succeeds ? start_succeed(p, why)
			  : mpib_rundir_open(&p->rundir, p->cfg.run_dir,
					     p->cfg.run_group, why);

	/* An upgraded proxy leaves the file to its successor. */
	if (rc == 0 && !succeeds)
		before = mpib_rundir_holder(&p->rundir);
	if (rc == 0)
		rc = mpib_rundir_write_pid(&p->rundir, getpid(), why);
	if (rc == 0)
		keep_events(&p->cfg, p->rundir.path);
	if (rc == 0 && before)
		mpib_event(MPIB_LOG_WARN, "crash", NULL,
			   "the previous mpib-proxy, pid %d, was killed "
			   "or crashed",
			   before);
	if (rc == 0)
		rc = open_parts(p, why);
	if (rc == 0)
		rc = mpib_sockets_open(p, why);
	if (rc == 0)
		rc = serve_clients(p, why);
	if (rc == 0)
		rc = open_metrics(p, why);
	if (rc == 0)
		rc = open_stats(p, why);
	if (rc == 0) {
		mpib_return_start(&p->returns, p);
		drain_sick(p);
	}
	return rc;
}

/* The control thread: signals, start, loop and stop. */

static void proxy_on_signal(void *arg, uint32_t events)
{
	struct mpib_proxy *p = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(p->signals, &info, sizeof(info)) != sizeof(info))
		return;
	mpib_event(MPIB_LOG_INFO, "stop", NULL,
		   "%s from pid %u: the proxy stops",
		   strsignal((int)info.ssi_signo), info.ssi_pid);
	p->loop.stop = true;
}

static int proxy_catch_signals(struct mpib_proxy *p)
{
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	/* Do this before any thread is made, because threads inherit the
	 * mask. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* Ignore SIGXFSZ, so that a write beyond RLIMIT_FSIZE fails and does
	 * not end the proxy. After such a failure, a client's memory is refused
	 * or a log is truncated. */
	signal(SIGXFSZ, SIG_IGN);
	rc = mpib_bus_catch();
	if (rc < 0)
		return rc;
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (p->signals < 0)
		return -errno;
	return mpib_loop_add(&p->loop, &p->signal_watch, p->signals, EPOLLIN,
			     proxy_on_signal, p);
}

/* Raise the soft limit of descriptors. A client needs five descriptors and one
 * more for each region, and a reader needs one. The soft limit is low only for
 * select(2), which this program does not call.
 *
 * Also enlarge the table of descriptors, before any thread exists. In a process
 * with threads, the kernel enlarges the table only after an RCU grace period
 * (synchronize_rcu() in fs/file.c). On a node with busy CPUs that took
 * more than 10 s, during which no client was answered. */
static void raise_descriptors(int any)
{
	struct rlimit limit;
	int last;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		mpib_warn("cannot raise the limit of descriptors: %m");
	last = (int)(limit.rlim_cur < TABLE ? limit.rlim_cur : TABLE) - 1;
	last = fcntl(any, F_DUPFD_CLOEXEC, last);
	if (last >= 0)
		close(last);
}

int mpib_proxy_start(struct mpib_proxy *p, char *why)
{
	int rc;

	p->control = p->stats_fd = p->signals = -1;
	p->admin_fd = -1;
	p->rundir.dir = -1;
	rc = mpib_loop_init(&p->loop);
	if (rc == 0) {
		raise_descriptors(p->loop.epfd);
		rc = proxy_catch_signals(p);
	}
	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "control thread: %s",
			 strerror(-rc));
		goto err_stop;
	}
	rc = start_parts(p, why);
	if (rc < 0)
		goto err_stop;
	return 0;

err_stop:
	mpib_proxy_stop(p);
	return rc;
}

void mpib_proxy_ready_line(const struct mpib_proxy *p, char *buf, size_t len)
{
	const struct mpib_view *v = &p->view;
	int n = snprintf(buf, len,
			 "ready pid %u control %s/" MPIB_CONTROL_SOCK
			 " stats %s/" MPIB_STATS_SOCK " peer-link %s",
			 v->pid, v->run_dir, v->run_dir, v->peer_link);

	if (p->cfg.engine.devices > 1)
		n += snprintf(buf + n, len > (size_t)n ? len - (size_t)n : 0,
			      " devices %u", p->cfg.engine.devices);
	for (unsigned r = 0; r < p->cfg.engine.rails; r++)
		n += snprintf(buf + n, len > (size_t)n ? len - (size_t)n : 0,
			      " %s %s", v->rail[r].label, v->rail[r].name);
	if (p->metrics.http)
		snprintf(buf + n, len > (size_t)n ? len - (size_t)n : 0,
			 " %s %s", mpib_http_scheme(p->metrics.http),
			 mpib_http_address(p->metrics.http));
}

static void on_status(void *arg)
{
	struct mpib_proxy *p = arg;

	uint64_t next = 10 * MPIB_SEC, watchdog = mpib_watchdog();

	mpib_sockets_check(p);
	mpib_notify("WATCHDOG=1\nSTATUS=%u rails, %u clients",
		    mpib_config_rail_total(&p->cfg), p->clients.usage.attached);
	if (watchdog && watchdog / 2 < next)
		next = watchdog / 2;
	mpib_timer_arm(&p->loop, &p->status_timer, next, on_status, p);
}

static void proxy_waits(void)
{
	mpib_notify("WATCHDOG=1");
}

int mpib_proxy_run(struct mpib_proxy *p)
{
	mpib_hca_waits = proxy_waits;
	mpib_notify("READY=1");
	on_status(p);
	return mpib_loop_run(&p->loop);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void mpib_proxy_stop(struct mpib_proxy *p)
{
	if (p->upgrade.leaves) {
		/* The successor uses the run directory unchanged. */
		mpib_notify("MAINPID=%d", (int)p->upgrade.pid);
		return;
	}
	mpib_notify("STOPPING=1");
	/* Send nothing to clients and peers, because they may wait for the next
	 * proxy. The end of the process frees the objects of a serving
	 * proxy. */
	if (!p->serving) {
		if (p->engine)
			mpib_engine_close(p->engine);
		if (p->broker)
			mpib_broker_close(p->broker);
		mpib_agent_close(p->agent);
		close_fd(&p->control);
		close_fd(&p->stats_fd);
		close_fd(&p->admin_fd);
		mpib_loop_del(&p->loop, &p->signal_watch);
		close_fd(&p->signals);
		mpib_loop_fini(&p->loop);
	}
	mpib_rundir_close(&p->rundir, p->activated ? MPIB_CONTROL_SOCK : NULL);
}
