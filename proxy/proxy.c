/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/event.h"
#include "notify.h"
#include "peer/broker.h"
#include "rails/describe.h"

/* Peers get so long to hear that we leave; nobody may hold us up. */
#define FAREWELL (300 * MPIB_MSEC)

static void on_signal(void *arg, uint32_t events)
{
	struct mpib_proxy *p = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(p->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR2) {
		mpib_upgrade_start(&p->upgrade, NULL);
		return;
	}
	mpib_event(MPIB_LOG_INFO, "stop", NULL,
		   "%s from pid %u: the proxy stops",
		   strsignal((int)info.ssi_signo), info.ssi_pid);
	mpib_loop_stop(&p->loop);
}

static int catch_signals(struct mpib_proxy *p)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGUSR2);
	/* Before there are threads, which inherit the mask. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (p->signals < 0)
		return -errno;
	return mpib_loop_add(&p->loop, &p->signal_watch, p->signals, EPOLLIN,
			     on_signal, p);
}

/* A client costs half a dozen descriptors and a reader one; the soft limit is
 * low for the sake of select(2), which nobody calls here. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		mpib_warn("cannot raise the limit of descriptors: %m");
}

static int open_engine(struct mpib_proxy *p, char *why)
{
	char reason[300];
	int rc = mpib_engine_open(&p->cfg.engine, &mpib_broker_events,
				  &p->broker, &p->engine, reason,
				  sizeof(reason));

	if (rc < 0) {
		p->engine = NULL;
		/* A port may come up by itself. */
		p->misconfigured = rc != -ENETDOWN;
		snprintf(why, MPIB_WHY_MAX, "rails: %s", reason);
	}
	return rc;
}

/* The peer link's address: as given, else the IPv4 of the SOUT rail. */
static int peer_address(struct mpib_proxy *p, struct in_addr *addr, char *why)
{
	const struct mpib_rail_spec *sout = &p->cfg.engine.rail[MPIB_RAIL_SOUT];
	struct mpib_port_info port;
	struct in6_addr gid;

	if (p->cfg.peer_addr[0]) {
		if (inet_pton(AF_INET, p->cfg.peer_addr, addr) == 1)
			return 0;
		snprintf(why, MPIB_WHY_MAX,
			 "peer link: \"%s\" is no IPv4 address (give a.b.c.d)",
			 p->cfg.peer_addr);
		return -EINVAL;
	}
	if (sout->provider == MPIB_PROVIDER_SOFT &&
	    inet_pton(AF_INET, sout->name, addr) == 1)
		return 0;
	if (mpib_engine_port(p->engine, MPIB_RAIL_SOUT, &port) == 0) {
		memcpy(&gid, port.gid.raw, sizeof(gid));
		if (IN6_IS_ADDR_V4MAPPED(&gid)) {
			memcpy(addr, &gid.s6_addr[12], sizeof(*addr));
			return 0;
		}
	}
	snprintf(why, MPIB_WHY_MAX,
		 "peer link: rail SOUT has no IPv4 address (give --peer-addr)");
	return -EADDRNOTAVAIL;
}

static int load_key(const struct mpib_proxy *p, const struct in_addr *addr,
		    struct mpib_cluster_key *key, char *why)
{
	if (p->cfg.peer_key_file[0])
		return mpib_cluster_key_load(p->cfg.peer_key_file, key, why,
					     MPIB_WHY_MAX);
	if (ntohl(addr->s_addr) >> 24 != IN_LOOPBACKNET)
		mpib_warn("peer link: whoever reaches it is taken for a proxy "
			  "of the cluster (set peer.key_file)");
	return 0;
}

/* IPv4 of the SOUT rail, by which islands are told apart; 0: it has none. */
static uint32_t sout_address(struct mpib_proxy *p)
{
	struct mpib_port_info port;
	struct in6_addr gid;
	uint32_t addr = 0;

	if (mpib_engine_port(p->engine, MPIB_RAIL_SOUT, &port) < 0)
		return 0;
	memcpy(&gid, port.gid.raw, sizeof(gid));
	if (IN6_IS_ADDR_V4MAPPED(&gid))
		memcpy(&addr, &gid.s6_addr[12], sizeof(addr));
	return addr;
}

static int open_agent(struct mpib_proxy *p, char *why)
{
	int rc;

	if (p->cfg.engine.mode != MPIB_MODE_ADVANCED)
		return 0;
	rc = mpib_agent_open(&p->loop, p->engine, p->cfg.agent_dir, &p->agent);
	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "agent: %s", strerror(-rc));
	return rc;
}

static int open_broker(struct mpib_proxy *p, char *why)
{
	char reason[300], text[INET_ADDRSTRLEN];
	struct mpib_cluster_key key = { 0 };
	struct in_addr addr;
	int rc = peer_address(p, &addr, why);
	struct mpib_broker_opts opts = {
		.loop = &p->loop,
		.engine = p->engine,
		.port = (uint16_t)p->cfg.peer_port,
		.islands = &p->cfg.islands,
		.agent = p->agent,
		.private_lanes = p->cfg.lanes == MPIB_LANES_PRIVATE,
		.silence_s = p->cfg.silence,
		.request_s = p->cfg.request_timeout,
		.connect_s = p->cfg.connect_timeout,
		.idle = p->takeover != NULL,
	};

	if (rc < 0)
		return rc;
	rc = load_key(p, &addr, &key, why);
	if (rc < 0)
		return rc;
	opts.key = &key;
	opts.addr = addr.s_addr;
	opts.sout = sout_address(p);
	rc = mpib_broker_open(&opts, &p->broker, reason, sizeof(reason));
	if (rc < 0) {
		p->broker = NULL;
		snprintf(why, MPIB_WHY_MAX,
			 "peer link: %s (give another --peer-port or --sout)",
			 reason);
		return rc;
	}
	if (p->takeover) {
		snprintf(p->view.peer_link, sizeof(p->view.peer_link), "%s",
			 p->takeover->base.peer_link);
		return 0;
	}
	inet_ntop(AF_INET, &addr, text, sizeof(text));
	snprintf(p->view.peer_link, sizeof(p->view.peer_link), "%s:%u", text,
		 mpib_broker_port(p->broker));
	return 0;
}

static void fill_view(struct mpib_proxy *p)
{
	struct mpib_view *v = &p->view;
	char line[256];

	v->cfg = &p->cfg;
	v->sessions = &p->sessions;
	v->engine = p->engine;
	v->run_dir = p->rundir.path;
	v->pid = (uint32_t)getpid();
	for (unsigned r = 0; r < p->cfg.engine.rails; r++) {
		struct mpib_port_info port = { 0 };

		mpib_engine_port(p->engine, r, &port);
		mpib_config_rail_name(&p->cfg, r, v->rail[r].name,
				      sizeof(v->rail[r].name));
		v->rail[r].provider = mpib_engine_provider(p->engine, r);
		v->rail[r].speed_mbps = port.speed_mbps;
		v->rail[r].mtu = (uint8_t)port.mtu;
		v->rail[r].gid = port.gid;
		mpib_rail_describe(r, v->rail[r].name, &port, line,
				   sizeof(line));
		mpib_info("%s", line);
	}
}

static int listen_all(struct mpib_proxy *p, char *why)
{
	p->control = mpib_activation_socket();
	p->activated = p->control >= 0;
	if (!p->activated)
		p->control = mpib_rundir_listen(&p->rundir, MPIB_CONTROL_SOCK,
						SOCK_SEQPACKET, why);
	if (p->control < 0)
		return p->control;
	p->stats_fd = mpib_rundir_listen(&p->rundir, MPIB_STATS_SOCK,
					 SOCK_STREAM, why);
	if (p->stats_fd < 0)
		return p->stats_fd;
	p->metrics_fd = mpib_rundir_listen(&p->rundir, MPIB_METRICS_SOCK,
					   SOCK_STREAM, why);
	return p->metrics_fd < 0 ? p->metrics_fd : 0;
}

static int open_sessions(struct mpib_proxy *p, char *why)
{
	int rc = mpib_sessions_init(&p->sessions, &p->loop, p->engine,
				    p->broker, &p->cfg, p->control);

	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "control thread: %s",
			 strerror(-rc));
	p->serving = rc == 0;
	return rc;
}

/* For who wants to look, and to change something. */
static int open_stats(struct mpib_proxy *p, char *why)
{
	int rc;

	fill_view(p);
	rc = mpib_metrics_open(&p->metrics, &p->loop, p->engine, p->metrics_fd,
			       &p->view, why);
	if (rc < 0)
		return rc;
	rc = mpib_stats_open(&p->loop, p->engine, p->stats_fd, &p->view,
			     &p->stats);
	if (rc < 0) {
		p->stats = NULL;
		snprintf(why, MPIB_WHY_MAX, "control thread: %s",
			 strerror(-rc));
		return rc;
	}
	p->admin = (struct mpib_admin){ .cfg = &p->cfg,
					.sessions = &p->sessions,
					.engine = p->engine,
					.upgrade = &p->upgrade };
	mpib_stats_admin(p->stats, &p->admin);
	mpib_event(MPIB_LOG_DEBUG, "start", NULL, "mpib-proxy %s serves %s",
		   MPIB_VERSION, p->rundir.path);
	return 0;
}

static int open_parts(struct mpib_proxy *p, char *why)
{
	int rc = open_engine(p, why);

	if (rc == 0)
		rc = open_agent(p, why);
	if (rc == 0)
		rc = open_broker(p, why);
	return rc;
}

static int start_first(struct mpib_proxy *p, char *why)
{
	int rc = mpib_rundir_open(&p->rundir, p->cfg.run_dir, p->cfg.run_group,
				  why);

	if (rc == 0)
		rc = mpib_rundir_write_pid(&p->rundir, why);
	if (rc == 0)
		rc = open_parts(p, why);
	if (rc == 0)
		rc = listen_all(p, why);
	if (rc == 0)
		rc = open_sessions(p, why);
	return rc == 0 ? open_stats(p, why) : rc;
}

/* Its clients come first, and what they have no part in must not hurt them. */
static int go_on(struct mpib_proxy *p, char *why)
{
	const struct mpib_base *b = &p->takeover->base;
	int rc = mpib_takeover_go_on(p);

	p->control = b->control;
	p->stats_fd = b->stats;
	p->metrics_fd = b->metrics;
	p->activated = b->activated;
	p->upgrade.count = b->upgrades + 1;
	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "upgrade: %s", strerror(-rc));
		return rc;
	}
	if (mpib_rundir_write_pid(&p->rundir, why) < 0)
		mpib_warn("%s", why);
	rc = open_stats(p, why);
	if (rc < 0 && p->cfg.metrics_listen[0]) {
		mpib_warn("%s", why);
		p->cfg.metrics_listen[0] = '\0';
		rc = open_stats(p, why);
	}
	return rc;
}

/* Up to its last step this leaves no trace, so ends without any clean-up. */
static int start_next(struct mpib_proxy *p, char *why)
{
	struct mpib_takeover *t = p->takeover;
	int rc = mpib_takeover_begin(t, &p->cfg, why);

	p->cfg.engine.heirloom = &t->base.heirloom;
	if (rc == 0)
		rc = mpib_rundir_inherit(&p->rundir, p->cfg.run_dir,
					 p->cfg.run_group, t->base.lock, why);
	p->rundir.made = t->base.made;
	if (rc == 0)
		rc = open_parts(p, why);
	if (rc == 0)
		rc = open_sessions(p, why);
	if (rc == 0)
		rc = mpib_takeover_state(p, why);
	if (rc < 0) {
		mpib_takeover_refuse(t, why);
		_exit(EXIT_FAILURE);
	}
	return go_on(p, why);
}

int mpib_proxy_start(struct mpib_proxy *p, char *why)
{
	int rc;

	p->control = p->stats_fd = p->metrics_fd = p->signals = -1;
	p->rundir.dir = -1;
	raise_descriptors();
	rc = mpib_loop_init(&p->loop);
	if (rc == 0)
		rc = catch_signals(p);
	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "control thread: %s",
			 strerror(-rc));
		goto err_stop;
	}
	rc = p->takeover ? start_next(p, why) : start_first(p, why);
	if (rc < 0)
		goto err_stop;
	return 0;

err_stop:
	mpib_proxy_stop(p);
	return rc;
}

void mpib_proxy_http(struct mpib_proxy *p, bool on)
{
	char why[MPIB_WHY_MAX];

	if (!on && p->metrics.http) {
		mpib_http_close(p->metrics.http);
		p->metrics.http = NULL;
	} else if (on && p->cfg.metrics_listen[0] && !p->metrics.http &&
		   mpib_http_open(&p->metrics.gather, p->cfg.metrics_listen,
				  &p->metrics.http, why) < 0) {
		p->metrics.http = NULL;
		mpib_warn("%s", why);
	}
}

void mpib_proxy_base(const struct mpib_proxy *p, struct mpib_base *b)
{
	*b = (struct mpib_base){
		.abi = MPIB_ABI_VERSION,
		.rails = p->cfg.engine.rails,
		.control = p->control,
		.stats = p->stats_fd,
		.metrics = p->metrics_fd,
		.lock = p->rundir.lock,
		.guard = p->takeover ? p->takeover->base.guard
				     : p->upgrade.guard[0],
		.activated = p->activated,
		.made = p->rundir.made,
		.upgrades = p->upgrade.count,
	};
	snprintf(b->run_dir, sizeof(b->run_dir), "%s", p->rundir.path);
	snprintf(b->peer_link, sizeof(b->peer_link), "%s", p->view.peer_link);
	mpib_engine_heirloom(p->engine, &b->heirloom);
}

void mpib_proxy_ready_line(const struct mpib_proxy *p, char *buf, size_t len)
{
	const struct mpib_view *v = &p->view;
	int n = snprintf(buf, len,
			 "ready pid %u control %s/" MPIB_CONTROL_SOCK
			 " stats %s/" MPIB_STATS_SOCK " peer-link %s",
			 v->pid, v->run_dir, v->run_dir, v->peer_link);

	for (unsigned r = 0; r < p->cfg.engine.rails; r++)
		n += snprintf(buf + n, len > (size_t)n ? len - (size_t)n : 0,
			      " %s %s", r == MPIB_RAIL_SOUT ? "SOUT" : "SUP",
			      v->rail[r].name);
	if (p->metrics.http)
		snprintf(buf + n, len > (size_t)n ? len - (size_t)n : 0,
			 " http %s", mpib_http_address(p->metrics.http));
}

static void on_status(void *arg)
{
	struct mpib_proxy *p = arg;

	uint64_t next = 10 * MPIB_SEC, watchdog = mpib_watchdog();

	mpib_notify("WATCHDOG=1\nSTATUS=%u rails, %u clients",
		    p->cfg.engine.rails, p->sessions.ledger.attached);
	if (watchdog && watchdog / 2 < next)
		next = watchdog / 2;
	mpib_timer_arm(&p->loop, &p->status_timer, next, on_status, p);
}

int mpib_proxy_run(struct mpib_proxy *p)
{
	mpib_notify("READY=1");
	on_status(p);
	return mpib_loop_run(&p->loop);
}

/* Peers learn from us, not from a reset, that our clients' connections end. */
static void say_farewell(struct mpib_proxy *p)
{
	uint64_t until = mpib_loop_now(&p->loop) + FAREWELL;
	uint64_t now;

	mpib_sessions_stop(&p->sessions);
	while (p->sessions.ledger.attached > 0 &&
	       (now = mpib_loop_now(&p->loop)) < until) {
		if (mpib_loop_turn(&p->loop, (int64_t)(until - now)) < 0)
			break;
	}
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void mpib_proxy_stop(struct mpib_proxy *p)
{
	mpib_upgrade_stop(&p->upgrade);
	mpib_notify("STOPPING=1");
	mpib_timer_disarm(&p->loop, &p->status_timer);
	if (p->serving)
		say_farewell(p);
	if (p->stats)
		mpib_stats_stop(p->stats);
	mpib_metrics_stop(&p->metrics);
	/* What it still has to say reaches sessions, broker, stats, metrics. */
	if (p->engine)
		mpib_engine_close(p->engine);
	if (p->serving)
		mpib_sessions_fini(&p->sessions);
	if (p->broker)
		mpib_broker_close(p->broker);
	mpib_agent_close(p->agent);
	if (p->stats)
		mpib_stats_free(p->stats);
	close_fd(&p->control);
	close_fd(&p->stats_fd);
	close_fd(&p->metrics_fd);
	mpib_rundir_close(&p->rundir, p->activated ? MPIB_CONTROL_SOCK : NULL);
	mpib_loop_del(&p->loop, &p->signal_watch);
	close_fd(&p->signals);
	mpib_loop_fini(&p->loop);
}
