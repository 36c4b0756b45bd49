/* SPDX-License-Identifier: Apache-2.0 */
/* The old proxy's steps from READY on, see channel.h and source.h. */
#include "handover/source.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/closer.h"
#include "base/event.h"
#include "base/log.h"
#include "engine/handover/handover.h"
#include "handover/channel.h"
#include "handover/clients.h"
#include "handover/guard.h"
#include "handover/state.h"
#include "notify.h"
#include "peer/handover/handover.h"
#include "proxy.h"

#define SETTLE_LIMIT (7 * MPIB_SEC)
/* When what clients have begun is ended, if it has not come to an end itself: no
 * client keeps the others waiting for long, nor the operator. */
#define PRESS_AFTER (2 * MPIB_SEC)
/* The same of what peers have to answer for, which one that hands over itself does
 * not for as long as HAND_LIMIT_MS. */
#define PRESS_PEERS_AFTER (4500 * MPIB_MSEC)
#define MAP_LIMIT (30 * MPIB_SEC)
#define FENCE_LIMIT (3 * MPIB_SEC) /* for the peers' answers */
#define LOOK MPIB_MSEC
#define HAND_LIMIT_MS 4000u /* for the new proxy to read the state */

/* A part of how long clients wait for an answer, of which they get none since
 * they were paused. */
static uint64_t patience_part(const struct mpib_upgrade *u, unsigned tenths)
{
	return u->proxy->cfg.answer * MPIB_SEC / 10 * tenths;
}

/* The deadline of a step that may take so long: none keeps a client waiting
 * until it gives up. */
static uint64_t source_until(const struct mpib_upgrade *u, uint64_t ns)
{
	uint64_t own = mpib_now_ns() + ns;
	uint64_t all = u->paused_ns + patience_part(u, 8);

	return own < all ? own : all;
}

/* Whether so long has gone by, or a part of the clients' patience. */
static bool source_presses(const struct mpib_upgrade *u, uint64_t after,
			   unsigned tenths)
{
	uint64_t part = patience_part(u, tenths);

	return mpib_now_ns() - u->paused_ns > (part < after ? part : after);
}

/* By force peers have so much of the time for a step that they have to answer in,
 * and nobody who begins something new then keeps it from its end. */
static bool source_shuts(const struct mpib_upgrade *u, uint64_t since)
{
	return u->force &&
	       mpib_now_ns() > since + (u->deadline - since) / 6 * 5;
}

/* Have what has not settled in time end. */
static void source_press(struct mpib_upgrade *u)
{
	if (!u->pressed && source_presses(u, PRESS_AFTER, 4)) {
		u->pressed = true;
		proxy_clients_press(&u->proxy->clients);
	}
	if ((!u->peers_pressed || u->force) &&
	    source_presses(u, PRESS_PEERS_AFTER, 5)) {
		u->peers_pressed = true;
		mpib_broker_press(u->proxy->broker);
	}
	if (source_shuts(u, u->paused_ns))
		mpib_broker_shut(u->proxy->broker, true);
}

/* Everything is the new proxy's now. This process must not touch what both
 * have: no farewell to peers, no clean-up, no destructor. */
static void source_leave(struct mpib_upgrade *u) __attribute__((noreturn));

static int guard_of(const struct mpib_proxy *p)
{
	return p->takeover ? p->takeover->base.guard : p->upgrade.guard[0];
}

void mpib_handover_tell(struct mpib_proxy *p, pid_t pid)
{
	char why[MPIB_WHY_MAX];

	mpib_guard_tell(guard_of(p), pid);
	if (mpib_rundir_write_pid(&p->rundir, pid, why) < 0)
		mpib_warn("%s", why);
}

/* Pass signals that came during the hand-over on to the new proxy. */
static void pass_signals(const struct mpib_upgrade *u)
{
	struct signalfd_siginfo info;

	while (read(u->proxy->signals, &info, sizeof(info)) == sizeof(info))
		kill(u->pid, (int)info.ssi_signo);
}

/* Unmap what others have, too: clients' memory, and devices, which are closed by that.
 * No thread is left that looks at it. */
static void unmap_shared(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL, *at;
	size_t room = 0;

	/* FROM-TO rw-s ... */
	while (maps && getline(&line, &room, maps) > 0) {
		unsigned long from = strtoul(line, &at, 16);
		unsigned long to = *at == '-' ? strtoul(at + 1, &at, 16) : 0;

		if (to > from && strlen(at) > 4 && at[4] == 's')
			munmap((void *)from, to - from);
	}
	free(line);
	if (maps)
		fclose(maps);
}

static void source_leave(struct mpib_upgrade *u)
{
	int status = EXIT_SUCCESS;

	mpib_notify_main(u->pid);
	mpib_log_drain();
	mpib_events_drain();
	mpib_handover_tell(u->proxy, u->pid);
	pass_signals(u);
	if (mpib_closers_leave(u->guard[1])) {
		unmap_shared();
		if (u->guard[1] >= 0)
			status = mpib_guard_run(u->guard[1]);
	} else if (u->guard[1] >= 0) {
		mpib_guard_become(u->guard[1]);
	}
	_exit(status);
}

unsigned mpib_source_limit_ms(unsigned silence_s)
{
	unsigned most = 800 * silence_s;

	return most < HAND_LIMIT_MS ? most : HAND_LIMIT_MS;
}

const char *mpib_source_last_error(int rc, const struct mpib_serial *p)
{
	if (rc == -EREMOTEIO && p)
		return p->why;
	if (rc == -EPIPE)
		return "the new mpib-proxy ended";
	if (rc == -ETIMEDOUT || rc == -EAGAIN)
		return "the new mpib-proxy does not answer";
	return strerror(-rc);
}

/* After GO: wait for TAKEN. If it does not come in time, close this direction
 * so that the new proxy cannot send it any more, and see whether it had sent it
 * just before. */
static int await_taken(struct mpib_upgrade *u, struct mpib_serial *answer)
{
	int rc = mpib_channel_recv(u->sock, MPIB_CHANNEL_TAKEN, answer);

	return rc == -ETIMEDOUT
		       ? mpib_channel_last(u->sock, MPIB_CHANNEL_TAKEN, answer)
		       : rc;
}

/* Limit the next channel call to what is left until u->deadline, which holds
 * for all steps of source_hand_over() together. */
static void source_limit(const struct mpib_upgrade *u)
{
	uint64_t now = mpib_now_ns();
	uint64_t left = u->deadline > now ? u->deadline - now : 0;

	mpib_channel_patience(u->sock, (unsigned)(left / MPIB_MSEC) + 1);
}

static void source_hand_over(struct mpib_upgrade *u)
{
	struct mpib_serial state, answer = { 0 };
	int rc;

	u->deadline = source_until(
		u, mpib_source_limit_ms(u->proxy->cfg.silence) * MPIB_MSEC);
	proxy_clients_check(&u->proxy->clients);
	mpib_serial_pack(&state);
	mpib_state_serialize(&state, u->proxy, &u->began_ns);
	if (state.failed) {
		mpib_upgrade_give_up(u, "%s", state.why);
		mpib_serial_fini(&state);
		return;
	}
	source_limit(u);
	rc = mpib_channel_send(u->sock, MPIB_CHANNEL_STATE, &state);
	mpib_serial_fini(&state);
	source_limit(u);
	if (rc == 0)
		rc = mpib_channel_recv(u->sock, MPIB_CHANNEL_PREPARED, &answer);
	if (rc == 0) {
		mpib_serial_fini(&answer);
		mpib_agent_leave(u->proxy->agent);
		rc = mpib_channel_send(u->sock, MPIB_CHANNEL_GO, NULL);
	}
	source_limit(u);
	if (rc == 0)
		rc = await_taken(u, &answer);
	if (rc == 0)
		source_leave(u);
	mpib_upgrade_give_up(u, "%s", mpib_source_last_error(rc, &answer));
	mpib_serial_fini(&answer);
}

static int source_settled(struct mpib_upgrade *u, char *why)
{
	struct mpib_proxy *p = u->proxy;
	int rc = proxy_clients_quiescent(&p->clients, why, MPIB_WHY_MAX);

	return rc < 0 ? rc
		      : mpib_broker_quiescent(p->broker, why, MPIB_WHY_MAX);
}

static void source_on_look(void *arg);

static void look_again(struct mpib_upgrade *u)
{
	mpib_timer_arm(&u->proxy->loop, &u->timer, LOOK, source_on_look, u);
}

/* Not all peers have stopped their ends of the rails, or something has begun. */
static void source_await_fences(struct mpib_upgrade *u, char *why)
{
	struct mpib_broker *b = u->proxy->broker;
	uint64_t now = mpib_loop_now(&u->proxy->loop), part;

	if (now > u->deadline) {
		if (!*why)
			mpib_broker_fences_why(b, why, MPIB_WHY_MAX);
		mpib_upgrade_give_up(u, "%s", why);
		return;
	}
	part = (u->deadline - u->began_ns) / 6;
	if (now - u->began_ns > part)
		mpib_broker_press_fences(b, now - u->began_ns > 4 * part);
	if (source_shuts(u, u->began_ns))
		mpib_broker_shut(b, true);
	look_again(u);
}

static void source_fence(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	char why[MPIB_WHY_MAX] = "";

	mpib_engine_leave(p->engine);
	if (mpib_engine_left(p->engine)) {
		mpib_engine_halt(p->engine);
		/* The last messages may have begun something new: check
		 * again. */
		if (source_settled(u, why) == 0 &&
		    mpib_engine_left(p->engine)) {
			source_hand_over(u);
			return;
		}
		if (mpib_engine_run(p->engine) < 0) {
			mpib_upgrade_give_up(u, "a shard does not start again");
			return;
		}
	}
	source_await_fences(u, why);
}

static void send_clients(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	struct mpib_serial serial;
	uint64_t now;
	int rc;

	mpib_serial_pack(&serial);
	proxy_clients_serialize(&serial, &p->clients);
	rc = mpib_channel_send(u->sock, MPIB_CHANNEL_CLIENTS, &serial);
	mpib_serial_fini(&serial);
	if (rc < 0) {
		mpib_upgrade_give_up(u, "%s", mpib_source_last_error(rc, NULL));
		return;
	}
	mpib_broker_shut(p->broker, false);
	u->state = MPIB_UPGRADE_MAPPING;
	u->deadline = source_until(u, MAP_LIMIT);
	now = mpib_now_ns();
	mpib_timer_arm(&p->loop, &u->timer,
		       u->deadline > now ? u->deadline - now : 0,
		       source_on_look, u);
}

static void source_settle(struct mpib_upgrade *u)
{
	char why[MPIB_WHY_MAX];
	int rc = source_settled(u, why);

	if (rc == -EBUSY || mpib_loop_now(&u->proxy->loop) > u->deadline) {
		mpib_upgrade_give_up(u, "%s", why);
		return;
	}
	if (rc < 0) {
		source_press(u);
		look_again(u);
	} else {
		send_clients(u);
	}
}

static void source_on_look(void *arg)
{
	struct mpib_upgrade *u = arg;

	if (u->state == MPIB_UPGRADE_MAPPING)
		mpib_upgrade_give_up(
			u,
			"the new mpib-proxy does not get hold of the "
			"clients' memory within %llu s",
			(unsigned long long)((mpib_now_ns() - u->paused_ns) /
					     MPIB_SEC));
	else if (u->state == MPIB_UPGRADE_SETTLING)
		source_settle(u);
	else
		source_fence(u);
}

void mpib_source_settle(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;

	u->state = MPIB_UPGRADE_SETTLING;
	u->pressed = u->peers_pressed = false;
	u->paused_ns = mpib_now_ns();
	u->deadline = source_until(u, SETTLE_LIMIT);
	proxy_clients_pause(&p->clients, true);
	mpib_broker_hold(p->broker, true);
	if (u->force)
		mpib_broker_force(p->broker);
	mpib_proxy_http(p, false);
	source_settle(u);
}

void mpib_source_fence(struct mpib_upgrade *u)
{
	u->state = MPIB_UPGRADE_FENCING;
	u->deadline = source_until(u, FENCE_LIMIT);
	u->began_ns = mpib_now_ns();
	mpib_loop_del(&u->proxy->loop, &u->watch);
	source_fence(u);
}

int mpib_source_undo(struct mpib_upgrade *u)
{
	struct mpib_proxy *p = u->proxy;
	int rc = 0;

	if (u->state >= MPIB_UPGRADE_FENCING) {
		rc = mpib_engine_run(p->engine);
		mpib_engine_stay(p->engine);
	}
	if (u->state >= MPIB_UPGRADE_SETTLING) {
		mpib_broker_hold(p->broker, false);
		proxy_clients_pause(&p->clients, false);
		mpib_proxy_http(p, true);
	}
	return rc;
}
