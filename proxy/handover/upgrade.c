/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The old proxy's first half of a hand-over: start the new proxy and wait until
 * it is ready; source.c does the rest. Also giving up. Control thread.
 */
#include "stats/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/event.h"
#include "handover/channel.h"
#include "handover/source.h"
#include "handover/spawn.h"
#include "handover/state.h"
#include "proxy.h"

#define START_LIMIT (30 * MPIB_SEC) /* to open the rails */
#define REAP MPIB_MSEC

static const char *const state_name[] = {
	[MPIB_UPGRADE_NONE] = "none",
	[MPIB_UPGRADE_STARTING] = "starting",
	[MPIB_UPGRADE_SETTLING] = "settling",
	[MPIB_UPGRADE_MAPPING] = "mapping",
	[MPIB_UPGRADE_FENCING] = "fencing",
};

void mpib_upgrade_init(struct mpib_upgrade *u, struct mpib_proxy *p,
		       char **argv)
{
	char *deleted;
	ssize_t n;

	*u = (struct mpib_upgrade){
		.proxy = p,
		.argv = argv,
		.sock = -1,
		.guard = { -1, -1 },
		.cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
	n = readlink("/proc/self/exe", u->exe, sizeof(u->exe) - 1);
	u->exe[n > 0 ? n : 0] = '\0';
	/* The program's file was replaced, as it is for an upgrade: proc(5)
	 * marks the path, where the new file is now. */
	deleted = strstr(u->exe, " (deleted)");
	if (deleted)
		*deleted = '\0';
}

/* A free entry of u->dying; NULL: there is none. */
static pid_t *upgrade_dying(struct mpib_upgrade *u)
{
	for (unsigned i = 0; i < MPIB_UPGRADE_DYING; i++) {
		if (!u->dying[i])
			return &u->dying[i];
	}
	return NULL;
}

/* Reap killed processes by polling: one that had pinned much memory may need
 * long to end, and the control thread must not wait. */
static void on_reap(void *arg)
{
	struct mpib_upgrade *u = arg;
	bool left = false;

	for (unsigned i = 0; i < MPIB_UPGRADE_DYING; i++) {
		if (u->dying[i] && waitpid(u->dying[i], NULL, WNOHANG) != 0)
			u->dying[i] = 0;
		left |= u->dying[i] != 0;
	}
	if (left)
		mpib_timer_arm(&u->proxy->loop, &u->reap, REAP, on_reap, u);
}

static void end_child(struct mpib_upgrade *u)
{
	if (u->pid > 0) {
		kill(u->pid, SIGKILL);
		*upgrade_dying(u) =
			u->pid; /* mpib_upgrade_start() made sure of a place */
		on_reap(u);
	}
	u->pid = 0;
	mpib_loop_del(&u->proxy->loop, &u->watch);
	mpib_timer_disarm(&u->proxy->loop, &u->timer);
	if (u->sock >= 0)
		close(u->sock);
	u->sock = -1;
}

void mpib_upgrade_give_up(struct mpib_upgrade *u, const char *fmt, ...)
{
	struct mpib_proxy *p = u->proxy;
	int rc;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(u->error, sizeof(u->error), fmt, ap);
	va_end(ap);
	end_child(u);
	rc = mpib_source_undo(u);
	u->state = MPIB_UPGRADE_NONE;
	u->failed = true;
	mpib_event(MPIB_LOG_WARN, "upgrade_failed", NULL,
		   "no upgrade, this mpib-proxy goes on: %s", u->error);
	if (rc < 0) {
		mpib_err("control thread: a shard does not start again: %s",
			 strerror(-rc));
		mpib_loop_stop(&p->loop);
	}
}

static void upgrade_on_late(void *arg)
{
	mpib_upgrade_give_up(arg,
			     "the new mpib-proxy was not ready within %llu s",
			     START_LIMIT / MPIB_SEC);
}

/* The new proxy closed its end of the channel: give up, and say with what
 * status the process ended, if it did within 100 ms. */
static void upgrade_tell_end(struct mpib_upgrade *u)
{
	int status = 0;
	pid_t pid = 0;

	for (int i = 0; i < 100 && pid == 0; i++) {
		pid = waitpid(u->pid, &status, WNOHANG);
		if (pid == 0)
			usleep(1000);
	}
	if (pid > 0)
		u->pid = 0;
	if (pid > 0 && WIFEXITED(status))
		mpib_upgrade_give_up(
			u,
			"the new mpib-proxy ended with status %d before it was "
			"ready (is it one?)",
			WEXITSTATUS(status));
	else if (pid > 0)
		mpib_upgrade_give_up(u, "the new mpib-proxy was killed: %s",
				     strsignal(WTERMSIG(status)));
	else
		mpib_upgrade_give_up(
			u, "the new mpib-proxy hung up before it was ready");
}

static void upgrade_on_said(void *arg, uint32_t events)
{
	struct mpib_upgrade *u = arg;
	bool starting = u->state == MPIB_UPGRADE_STARTING;
	struct mpib_serial answer;
	int rc;

	(void)events;
	rc = mpib_channel_recv(
		u->sock, starting ? MPIB_CHANNEL_READY : MPIB_CHANNEL_MAPPED,
		&answer);
	if (rc == -EPIPE && starting)
		upgrade_tell_end(u);
	else if (rc < 0)
		mpib_upgrade_give_up(u, "%s",
				     mpib_source_last_error(rc, &answer));
	else if (starting)
		mpib_source_settle(u);
	else if (u->state == MPIB_UPGRADE_MAPPING)
		mpib_source_fence(u);
	else
		mpib_upgrade_give_up(u,
				     "the new mpib-proxy speaks out of turn");
	mpib_serial_fini(&answer);
}

static int send_base(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	struct mpib_serial serial;
	struct mpib_base base;
	int rc;

	mpib_proxy_base(p, &base);
	mpib_serial_pack(&serial);
	mpib_base_serialize(&serial, &base);
	rc = mpib_channel_send(u->sock, MPIB_CHANNEL_BASE, &serial);
	mpib_serial_fini(&serial);
	return rc;
}

static int upgrade_refuse(struct mpib_upgrade *u, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int upgrade_refuse(struct mpib_upgrade *u, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(u->error, sizeof(u->error), fmt, ap);
	va_end(ap);
	u->failed = true;
	mpib_event(MPIB_LOG_WARN, "upgrade_failed", NULL, "no upgrade: %s",
		   u->error);
	return rc;
}

static int upgrade_may_start(struct mpib_upgrade *u, const char *path)
{
	/* While it says farewell signals and commands still come. */
	if (u->over)
		return upgrade_refuse(u, -ESHUTDOWN, "the proxy stops");
	u->failed = false;
	return access(path, X_OK) < 0 ? upgrade_refuse(u, -errno, "%s: %s",
						       path, strerror(errno))
				      : 0;
}

int mpib_upgrade_start(struct mpib_upgrade *u, const char *path, bool force)
{
	struct mpib_proxy *p = u->proxy;
	const struct mpib_spawn how = {
		.path = path ? path : u->exe,
		.argv = u->argv,
		.cwd = u->cwd,
	};
	int rc;

	if (u->state != MPIB_UPGRADE_NONE || !upgrade_dying(u)) {
		errno = EALREADY;
		return -EALREADY;
	}
	rc = upgrade_may_start(u, how.path);
	if (rc < 0)
		return rc;
	u->force = force;
	rc = mpib_spawn_guard(p->takeover ? p->takeover->base.guard : -1,
			      p->cfg.daemon, u->guard);
	if (rc == 0)
		rc = mpib_spawn(&how, &u->sock, &u->pid);
	if (rc < 0)
		return upgrade_refuse(u, rc, "%s cannot be started: %s",
				      how.path, strerror(-rc));
	/* The fence needs rails that carry, and the new process takes no fault
	 * over. */
	mpib_plays_end(&p->plays, "an upgrade begins");
	mpib_channel_patience(u->sock, mpib_source_limit_ms(p->cfg.silence));
	u->state = MPIB_UPGRADE_STARTING;
	mpib_event(MPIB_LOG_INFO, "upgrade", NULL, "%s, pid %d, gets ready%s",
		   how.path, (int)u->pid, force ? ", by force" : "");
	rc = send_base(u);
	if (rc == 0)
		rc = mpib_loop_add(&p->loop, &u->watch, u->sock, EPOLLIN,
				   upgrade_on_said, u);
	mpib_timer_arm(&p->loop, &u->timer, START_LIMIT, upgrade_on_late, u);
	/* A process that closed the channel without reading BASE is ending: its
	 * last words, or its exit status, say more than EPIPE. */
	if (rc < 0 && rc != -EPIPE)
		mpib_upgrade_give_up(u, "handing over: %s", strerror(-rc));
	else if (rc < 0)
		upgrade_on_said(u, 0);
	return 0;
}

void mpib_upgrade_stop(struct mpib_upgrade *u)
{
	u->over = true;
	if (u->state != MPIB_UPGRADE_NONE)
		mpib_upgrade_give_up(u, "the proxy stops");
	if (u->proxy)
		mpib_timer_disarm(&u->proxy->loop, &u->reap);
}

json_t *mpib_upgrade_view(const struct mpib_upgrade *u)
{
	const struct mpib_takeover *t = u->proxy->takeover;
	const char *state = state_name[u->state];
	double blackout = t ? (double)t->blackout_ns / 1e9 : 0;

	if (u->state == MPIB_UPGRADE_NONE && u->failed)
		state = "failed";
	else if (u->state == MPIB_UPGRADE_NONE && t)
		state = t->blackout_ns ? "done" : "resuming";
	return json_pack("{ss sI ss sI sf sI}", "state", state, "count",
			 (json_int_t)u->count, "error",
			 u->failed ? u->error : "", "pid", (json_int_t)getpid(),
			 "blackout_s", blackout, "readopted",
			 (json_int_t)u->proxy->readopt.count);
}
