/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "engine/handover/handover.h"
#include "handover/channel.h"
#include "handover/guard.h"
#include "handover/sessions.h"
#include "handover/spawn.h"
#include "handover/state.h"
#include "notify.h"
#include "peer/handover/handover.h"
#include "proxy.h"

#define START_LIMIT (30 * MPIB_SEC) /* to open the rails */
#define SETTLE_LIMIT (5 * MPIB_SEC)
#define MAP_LIMIT (30 * MPIB_SEC)
#define FENCE_LIMIT (3 * MPIB_SEC) /* for the other nodes' answers */
#define HAND_LIMIT_S 4 /* to read what is handed over */
#define LOOK MPIB_MSEC

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
}

static void end_child(struct mpib_upgrade *u)
{
	if (u->pid > 0) {
		kill(u->pid, SIGKILL);
		waitpid(u->pid, NULL, 0);
	}
	u->pid = 0;
	mpib_loop_del(&u->proxy->loop, &u->watch);
	mpib_timer_disarm(&u->proxy->loop, &u->timer);
	if (u->sock >= 0)
		close(u->sock);
	u->sock = -1;
}

/* The new one is gone: go on as if nothing had been. */
static void give_up(struct mpib_upgrade *u, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void give_up(struct mpib_upgrade *u, const char *fmt, ...)
{
	struct mpib_proxy *p = u->proxy;
	int rc = 0;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(u->error, sizeof(u->error), fmt, ap);
	va_end(ap);
	end_child(u);
	if (u->state >= MPIB_UPGRADE_FENCING) {
		rc = mpib_engine_run(p->engine);
		mpib_engine_stay(p->engine);
	}
	if (u->state >= MPIB_UPGRADE_SETTLING) {
		mpib_sessions_pause(&p->sessions, false);
		mpib_proxy_http(p, true);
	}
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

/* It is the other's. Nothing here may touch what both know: no farewell, no
 * clean-up, no destructor. */
static void leave(struct mpib_upgrade *u) __attribute__((noreturn));

static void leave(struct mpib_upgrade *u)
{
	mpib_notify_main(u->pid);
	if (u->guard[1] >= 0)
		mpib_guard_become(u->proxy->rundir.path, u->guard[1]);
	_exit(EXIT_SUCCESS);
}

static const char *trouble(int rc, const struct mpib_parcel *p)
{
	if (rc == -EREMOTEIO && p)
		return p->why;
	if (rc == -EPIPE)
		return "the new mpib-proxy ended";
	if (rc == -ETIMEDOUT || rc == -EAGAIN)
		return "the new mpib-proxy does not answer";
	return strerror(-rc);
}

/* Once GO is sent: whether TAKEN comes, or came before the new one ended. */
static int await_taken(struct mpib_upgrade *u, struct mpib_parcel *answer)
{
	int rc = mpib_channel_recv(u->sock, MPIB_CHANNEL_TAKEN, answer);

	if (rc != -ETIMEDOUT)
		return rc;
	kill(u->pid, SIGKILL);
	waitpid(u->pid, NULL, 0);
	u->pid = 0;
	return mpib_channel_recv(u->sock, MPIB_CHANNEL_TAKEN, answer);
}

static void hand_over(struct mpib_upgrade *u)
{
	struct mpib_parcel state, answer = { 0 };
	int rc;

	mpib_parcel_pack(&state);
	mpib_state_parcel(&state, u->proxy, &u->began_ns);
	if (state.failed) {
		give_up(u, "%s", state.why);
		mpib_parcel_fini(&state);
		return;
	}
	rc = mpib_channel_send(u->sock, MPIB_CHANNEL_STATE, &state);
	mpib_parcel_fini(&state);
	if (rc == 0)
		rc = mpib_channel_recv(u->sock, MPIB_CHANNEL_PREPARED, &answer);
	if (rc == 0) {
		mpib_parcel_fini(&answer);
		rc = mpib_channel_send(u->sock, MPIB_CHANNEL_GO, NULL);
	}
	if (rc == 0)
		rc = await_taken(u, &answer);
	if (rc == 0)
		leave(u);
	give_up(u, "%s", trouble(rc, &answer));
	mpib_parcel_fini(&answer);
}

static int settled(struct mpib_upgrade *u, char *why)
{
	struct mpib_proxy *p = u->proxy;
	int rc = mpib_sessions_settled(&p->sessions, why, MPIB_WHY_MAX);

	return rc < 0 ? rc : mpib_broker_settled(p->broker, why, MPIB_WHY_MAX);
}

static void on_look(void *arg);

static void look_again(struct mpib_upgrade *u)
{
	mpib_timer_arm(&u->proxy->loop, &u->timer, LOOK, on_look, u);
}

static void fence(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	char why[MPIB_WHY_MAX];

	mpib_engine_leave(p->engine);
	if (!mpib_engine_left(p->engine)) {
		if (mpib_loop_now(&p->loop) > u->deadline)
			give_up(u, "another node does not stop its end of the "
				   "rails (see mpibctl peers)");
		else
			look_again(u);
		return;
	}
	mpib_engine_halt(p->engine);
	/* Something may have arrived with the last of it. */
	if (settled(u, why) == 0 && mpib_engine_left(p->engine)) {
		hand_over(u);
		return;
	}
	if (mpib_loop_now(&p->loop) > u->deadline) {
		give_up(u, "%s", why);
	} else if (mpib_engine_run(p->engine) < 0) {
		give_up(u, "a shard does not start again");
	} else {
		look_again(u);
	}
}

static void send_clients(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	struct mpib_parcel parcel;
	int rc;

	mpib_parcel_pack(&parcel);
	mpib_clients_parcel(&parcel, p);
	rc = mpib_channel_send(u->sock, MPIB_CHANNEL_CLIENTS, &parcel);
	mpib_parcel_fini(&parcel);
	if (rc < 0) {
		give_up(u, "%s", trouble(rc, NULL));
		return;
	}
	u->state = MPIB_UPGRADE_MAPPING;
	mpib_timer_arm(&p->loop, &u->timer, MAP_LIMIT, on_look, u);
}

static void settle(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	char why[MPIB_WHY_MAX];
	int rc = settled(u, why);

	if (rc == -EBUSY || mpib_loop_now(&p->loop) > u->deadline) {
		give_up(u, "%s", why);
		return;
	}
	if (rc < 0)
		look_again(u);
	else
		send_clients(u);
}

static void on_look(void *arg)
{
	struct mpib_upgrade *u = arg;

	if (u->state == MPIB_UPGRADE_STARTING)
		give_up(u, "the new mpib-proxy was not ready within %llu s",
			START_LIMIT / MPIB_SEC);
	else if (u->state == MPIB_UPGRADE_MAPPING)
		give_up(u,
			"the new mpib-proxy does not get hold of the "
			"clients' memory within %llu s",
			MAP_LIMIT / MPIB_SEC);
	else if (u->state == MPIB_UPGRADE_SETTLING)
		settle(u);
	else
		fence(u);
}

/* How it ended, if it has; it closed its end of the socket. */
static void tell_end(struct mpib_upgrade *u)
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
		give_up(u,
			"the new mpib-proxy ended with status %d before it was "
			"ready (is it one?)",
			WEXITSTATUS(status));
	else if (pid > 0)
		give_up(u, "the new mpib-proxy was killed: %s",
			strsignal(WTERMSIG(status)));
	else
		give_up(u, "the new mpib-proxy hung up before it was ready");
}

/* Its rails are open. */
static void begin_settling(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;

	u->state = MPIB_UPGRADE_SETTLING;
	u->deadline = mpib_loop_now(&p->loop) + SETTLE_LIMIT;
	mpib_sessions_pause(&p->sessions, true);
	mpib_proxy_http(p, false);
	settle(u);
}

static void begin_fencing(struct mpib_upgrade *u)
{
	u->state = MPIB_UPGRADE_FENCING;
	u->deadline = mpib_loop_now(&u->proxy->loop) + FENCE_LIMIT;
	u->began_ns = mpib_now_ns();
	mpib_loop_del(&u->proxy->loop, &u->watch);
	fence(u);
}

static void on_said(void *arg, uint32_t events)
{
	struct mpib_upgrade *u = arg;
	bool starting = u->state == MPIB_UPGRADE_STARTING;
	struct mpib_parcel answer;
	int rc;

	(void)events;
	rc = mpib_channel_recv(
		u->sock, starting ? MPIB_CHANNEL_READY : MPIB_CHANNEL_MAPPED,
		&answer);
	if (rc == -EPIPE && starting)
		tell_end(u);
	else if (rc < 0)
		give_up(u, "%s", trouble(rc, &answer));
	else if (starting)
		begin_settling(u);
	else if (u->state == MPIB_UPGRADE_MAPPING)
		begin_fencing(u);
	else
		give_up(u, "the new mpib-proxy speaks out of turn");
	mpib_parcel_fini(&answer);
}

static int send_base(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	struct mpib_parcel parcel;
	struct mpib_base base;
	int rc;

	mpib_proxy_base(p, &base);
	mpib_parcel_pack(&parcel);
	mpib_base_parcel(&parcel, &base);
	rc = mpib_channel_send(u->sock, MPIB_CHANNEL_BASE, &parcel);
	mpib_parcel_fini(&parcel);
	return rc;
}

static int refuse(struct mpib_upgrade *u, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(struct mpib_upgrade *u, int rc, const char *fmt, ...)
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

int mpib_upgrade_start(struct mpib_upgrade *u, const char *path)
{
	struct mpib_proxy *p = u->proxy;
	const struct mpib_spawn how = {
		.path = path ? path : u->exe,
		.argv = u->argv,
		.cwd = u->cwd,
	};
	int rc;

	if (u->state != MPIB_UPGRADE_NONE) {
		errno = EALREADY;
		return -EALREADY;
	}
	u->failed = false;
	if (access(how.path, X_OK) < 0)
		return refuse(u, -errno, "%s: %s", how.path, strerror(errno));
	rc = mpib_spawn_guard(p->takeover ? p->takeover->base.guard : -1,
			      p->cfg.daemon, u->guard);
	if (rc == 0)
		rc = mpib_spawn(&how, &u->sock, &u->pid);
	if (rc < 0)
		return refuse(u, rc, "%s cannot be started: %s", how.path,
			      strerror(-rc));
	mpib_channel_patience(u->sock, HAND_LIMIT_S);
	u->state = MPIB_UPGRADE_STARTING;
	mpib_event(MPIB_LOG_INFO, "upgrade", NULL, "%s, pid %d, gets ready",
		   how.path, (int)u->pid);
	rc = send_base(u);
	if (rc == 0)
		rc = mpib_loop_add(&p->loop, &u->watch, u->sock, EPOLLIN,
				   on_said, u);
	mpib_timer_arm(&p->loop, &u->timer, START_LIMIT, on_look, u);
	/* What does not read it will end, which says more. */
	if (rc < 0 && rc != -EPIPE)
		give_up(u, "handing over: %s", strerror(-rc));
	else if (rc < 0)
		tell_end(u);
	return 0;
}

void mpib_upgrade_stop(struct mpib_upgrade *u)
{
	if (u->state != MPIB_UPGRADE_NONE)
		give_up(u, "the proxy stops");
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
	return json_pack("{ss sI ss sI sf}", "state", state, "count",
			 (json_int_t)u->count, "error",
			 u->failed ? u->error : "", "pid", (json_int_t)getpid(),
			 "blackout_s", blackout);
}
