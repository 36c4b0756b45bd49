/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's control thread: signals, start, loop and stop. */
#include "proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/copy.h"
#include "base/event.h"
#include "notify.h"
#include "peer/broker.h"
#include "sockets.h"
#include "start.h"
#include "verbs/hca/hca.h"

/* How long the stopping proxy waits for its clients' connections to be closed
 * with peers. */
#define FAREWELL (300 * MPIB_MSEC)

/* Descriptors that their table has room for from the start: 8 bytes each, and
 * more than the clients of a node take. */
#define TABLE 16384

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
	mpib_loop_stop(&p->loop);
}

static int proxy_catch_signals(struct mpib_proxy *p)
{
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	/* Before any thread is made: threads inherit the mask. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* Memory of a client beyond RLIMIT_FSIZE is refused, a log is cut. */
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

/* A client needs half a dozen descriptors and a reader one. The soft limit is
 * low only for select(2), which this program does not call. Their table gets its
 * size here, before there is a thread: in a process that has some the kernel makes
 * it larger only once all CPUs are done with what they read of the old one
 * (synchronize_rcu() in fs/file.c). On a node whose CPUs are all busy that was
 * more than 10 s, in which no client is answered. */
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

	p->control = p->stats_fd = p->metrics_fd = p->signals = -1;
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
	rc = mpib_start(p, why);
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

/* Close the clients' connections in order, so that peers learn it from messages
 * and not from a reset. */
static void say_farewell(struct mpib_proxy *p)
{
	uint64_t until = mpib_loop_now(&p->loop) + FAREWELL;
	uint64_t now;

	proxy_clients_stop(&p->clients);
	while (p->clients.usage.attached > 0 &&
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
	mpib_return_stop(&p->returns);
	mpib_plays_end(&p->plays, "the proxy stops");
	mpib_upgrade_stop(&p->upgrade);
	if (p->upgrade.leaves) {
		/* The successor uses the run directory as it is. */
		mpib_notify("MAINPID=%d", (int)p->upgrade.pid);
		return;
	}
	mpib_notify("STOPPING=1");
	mpib_timer_disarm(&p->loop, &p->status_timer);
	if (p->serving && p->cfg.engine.resume) {
		/* The clients wait for the next proxy, and so do the peers: no
		 * word to either. The memory goes with the process. */
		mpib_rundir_close(&p->rundir,
				  p->activated ? MPIB_CONTROL_SOCK : NULL);
		return;
	}
	if (p->serving)
		say_farewell(p);
	if (p->stats)
		mpib_stats_close(p->stats);
	mpib_metrics_stop(&p->metrics);
	mpib_cluster_stop(&p->cluster);
	/* First the engine: closing it still calls back into clients, broker,
	 * metrics, which are freed after it. */
	if (p->engine)
		mpib_engine_close(p->engine);
	if (p->serving)
		proxy_clients_fini(&p->clients);
	if (p->broker)
		mpib_broker_close(p->broker);
	mpib_history_fini(&p->history);
	mpib_agent_close(p->agent);
	close_fd(&p->control);
	close_fd(&p->stats_fd);
	close_fd(&p->metrics_fd);
	close_fd(&p->admin_fd);
	mpib_rundir_close(&p->rundir, p->activated ? MPIB_CONTROL_SOCK : NULL);
	mpib_loop_del(&p->loop, &p->signal_watch);
	close_fd(&p->signals);
	mpib_loop_fini(&p->loop);
}
