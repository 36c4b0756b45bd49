/* SPDX-License-Identifier: Apache-2.0 */
/* The new proxy's side of a hand-over: the protocol of channel.h. */
#include "handover/takeover.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/event.h"
#include "engine/handover/handover.h"
#include "handover/channel.h"
#include "handover/clients.h"
#include "handover/state.h"
#include "peer/handover/handover.h"
#include "proxy.h"

/* How long to wait for the old proxy, which may have to wait for peers. */
#define PATIENCE_MS 60000
/* How often to check whether the traffic goes on. */
#define LOOK MPIB_MSEC

static int takeover_check(const struct mpib_base *b,
			  const struct mpib_config *cfg, char *why)
{
	if (b->abi != MPIB_ABI_VERSION)
		return mpib_why_fail(
			why, -ENOTSUP,
			"upgrade: clients are attached by version %u, this "
			"mpib-proxy serves version %u (restart it)",
			b->abi, MPIB_ABI_VERSION);
	if (b->devices != cfg->engine.devices)
		return mpib_why_fail(
			why, -EINVAL,
			"upgrade: there are %u devices now and were %u "
			"(restart to change that)",
			cfg->engine.devices, b->devices);
	if (b->inherited.shards != cfg->engine.devices * cfg->engine.shards)
		return mpib_why_fail(
			why, -EINVAL,
			"upgrade: proxy.threads is %u now and was %u "
			"(restart to change it)",
			cfg->engine.shards,
			b->inherited.shards / cfg->engine.devices);
	if (b->rails != cfg->engine.rails)
		return mpib_why_fail(
			why, -EINVAL,
			"upgrade: there are %u rails now and were %u "
			"(restart to change that)",
			cfg->engine.rails, b->rails);
	if (strcmp(b->run_dir, cfg->run_dir))
		return mpib_why_fail(
			why, -EINVAL,
			"upgrade: the run directory is %.80s now and was "
			"%.80s (restart to change it)",
			cfg->run_dir, b->run_dir);
	return 0;
}

int mpib_takeover_begin(struct mpib_takeover *t, struct mpib_config *cfg,
			char *why)
{
	struct mpib_serial p;
	int rc = mpib_channel_patience(t->sock, PATIENCE_MS);

	if (rc == 0)
		rc = mpib_channel_recv(t->sock, MPIB_CHANNEL_BASE, &p);
	if (rc == -ENOTSUP)
		return mpib_why_fail(
			why, rc,
			"upgrade: the mpib-proxy that runs hands over in "
			"another form (restart it)");
	if (rc < 0)
		return mpib_why_fail(
			why, rc,
			"--takeover: nobody hands over: %s (it is for "
			"mpibctl upgrade alone)",
			strerror(-rc));
	mpib_base_serialize(&p, &t->base);
	if (p.failed)
		rc = mpib_why_fail(why, -EPROTO, "upgrade: %s", p.why);
	mpib_serial_fini(&p);
	/* Inherited through exec: WATCHDOG_PID names the old proxy. */
	unsetenv("WATCHDOG_PID");
	if (rc == 0)
		rc = mpib_config_keep_devices(cfg, t->base.devices,
					      t->base.standby, t->base.device,
					      why);
	return rc < 0 ? rc : takeover_check(&t->base, cfg, why);
}

void mpib_takeover_refuse(const struct mpib_takeover *t, const char *why)
{
	mpib_channel_fail(t->sock, why);
}

static int takeover_lost(int rc, char *why)
{
	return mpib_why_fail(why, rc,
			     "upgrade: the mpib-proxy that runs gave up: %s",
			     strerror(-rc));
}

/* Send what, and wait for want. */
static int takeover_say(const struct mpib_takeover *t,
			enum mpib_channel_type what,
			enum mpib_channel_type want, struct mpib_serial *answer,
			char *why)
{
	int rc = mpib_channel_send(t->sock, what, NULL);

	if (rc == 0)
		rc = mpib_channel_recv(t->sock, want, answer);
	return rc < 0 ? takeover_lost(rc, why) : 0;
}

/* A stop signal sent to all processes of a node reaches both proxies. Before
 * TAKEN the old proxy obeys it, so this process cancels the take-over; from
 * TAKEN on this process stops. */
static int told_to_stop(char *why)
{
	static const int stop[] = { SIGTERM, SIGINT, SIGQUIT };
	sigset_t set;

	if (sigpending(&set) < 0)
		return 0;
	for (unsigned i = 0; i < sizeof(stop) / sizeof(stop[0]); i++) {
		if (sigismember(&set, stop[i]) == 1)
			return mpib_why_fail(why, -ECANCELED,
					     "upgrade: the new mpib-proxy was "
					     "told to stop: %s",
					     strsignal(stop[i]));
	}
	return 0;
}

/* p has been unpacked: free it. -EPROTO and why where that failed. */
static int takeover_finish(struct mpib_serial *p, char *why)
{
	int rc = 0;

	if (p->failed)
		rc = mpib_why_fail(why, -EPROTO, "upgrade: %s", p->why);
	mpib_serial_fini(p);
	return rc;
}

int mpib_takeover_state(struct mpib_proxy *p, char *why)
{
	struct mpib_takeover *t = p->takeover;
	struct mpib_serial serial;
	int rc = mpib_engine_ready(p->engine);

	/* From TAKEN on there is no other process that could go on. */
	if (rc < 0)
		return mpib_why_fail(why, rc,
				     "upgrade: a shard gets no thread: %s "
				     "(raise TasksMax, or ulimit -u)",
				     strerror(-rc));
	rc = takeover_say(t, MPIB_CHANNEL_READY, MPIB_CHANNEL_CLIENTS, &serial,
			  why);
	if (rc < 0)
		return rc;
	proxy_clients_serialize(&serial, &p->clients);
	rc = takeover_finish(&serial, why);
	if (rc == 0)
		rc = takeover_say(t, MPIB_CHANNEL_MAPPED, MPIB_CHANNEL_STATE,
				  &serial, why);
	if (rc < 0)
		return rc;
	mpib_state_serialize(&serial, p, &t->began_ns);
	rc = takeover_finish(&serial, why);
	if (rc == 0)
		proxy_clients_check(&p->clients);
	if (rc == 0)
		rc = takeover_say(t, MPIB_CHANNEL_PREPARED, MPIB_CHANNEL_GO,
				  &serial, why);
	if (rc < 0)
		return rc;
	mpib_serial_fini(&serial);
	rc = told_to_stop(why);
	if (rc < 0)
		return rc;
	rc = mpib_channel_send(t->sock, MPIB_CHANNEL_TAKEN, NULL);
	return rc < 0 ? takeover_lost(rc, why) : 0;
}

static void takeover_on_look(void *arg)
{
	struct mpib_proxy *p = arg;
	struct mpib_takeover *t = p->takeover;
	struct mpib_event_about about = { 0 };

	if (!mpib_engine_moves(p->engine)) {
		mpib_timer_arm(&p->loop, &t->timer, LOOK, takeover_on_look, p);
		return;
	}
	about.ns = t->blackout_ns = mpib_now_ns() - t->began_ns;
	mpib_event(MPIB_LOG_INFO, "upgrade", &about,
		   "mpib-proxy " MPIB_VERSION " goes on with %u clients; their "
		   "traffic stood still for %llu.%03llu ms",
		   p->clients.usage.attached,
		   (unsigned long long)about.ns / 1000000,
		   (unsigned long long)about.ns / 1000 % 1000);
}

static void on_guard(void *arg, uint32_t events)
{
	struct mpib_proxy *p = arg;

	(void)events;
	mpib_loop_del(&p->loop, &p->takeover->guard_watch);
	mpib_warn("the process that started first was killed: the proxy stops");
	mpib_loop_stop(&p->loop);
}

int mpib_takeover_go_on(struct mpib_proxy *p)
{
	struct mpib_takeover *t = p->takeover;
	int rc = mpib_engine_run(p->engine);

	if (rc == 0)
		rc = mpib_broker_go_on(p->broker);
	if (rc == 0)
		rc = proxy_clients_go_on(&p->clients, t->base.control);
	if (rc == 0 && t->base.guard >= 0)
		rc = mpib_loop_add(&p->loop, &t->guard_watch, t->base.guard, 0,
				   on_guard, p);
	mpib_engine_stay(p->engine);
	takeover_on_look(p);
	return rc;
}
