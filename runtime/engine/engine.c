/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing an engine, and small queries. Control thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/conn/conn.h"
#include "engine/recovery/failover.h"
#include "engine/shard.h"
#include "engine/split/mode.h"
#include "verbs/soft/soft.h"

void mpib_engine_config_init(struct mpib_engine_config *cfg)
{
	*cfg = (struct mpib_engine_config){
		.devices = 1,
		.rails = 2,
		.shards = 1,
		.qps = { 2, 4 },
		.mode = MPIB_MODE_STATIC,
		.sup_bw = 512,
		.bdp = 64u << 10,
		.srq_high = 512,
		.sq_depth = 512,
		.lane_window = 8u << 20,
		.frag = 512u << 10,
		.share_window = 2u << 20,
		/* These are the values of NCCL's own transport, and fabrics are
		 * tuned for them. Retries last half a minute. */
		.timeout = 20,
		.retry_cnt = 7,
		.traffic_class = -1,
		.service_level = -1,
		.ar_threshold = 8192,
		.ece = 1,
		.failover = true,
		.hold_ms = 750,
		.grace_ms = 10000,
	};
}

static int make_status(struct mpib_engine *e)
{
	int rc = mpib_memseg_create(&e->status_seg, "mpib-status",
				    sizeof(struct mpib_status), true);

	if (rc < 0)
		return rc;
	e->status = e->status_seg.addr;
	return 0;
}

static int engine_watch_rail(struct mpib_engine *e,
			     const struct mpib_rail *rail)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int bell;

	/* Do not watch a rail that was away at the start, because nothing reads
	 * the events of that rail. */
	if (!rail->ctx || rail->dead)
		return 0;
	if (epoll_ctl(e->epfd, EPOLL_CTL_ADD, rail->ctx->async_fd, &ev) < 0)
		return -errno;
	bell = rail->verbs->bell();
	if (bell < 0)
		return bell == -EOPNOTSUPP ? 0 : bell;
	/* All rails share one bell. */
	ev.events |= EPOLLET;
	if (epoll_ctl(e->epfd, EPOLL_CTL_ADD, bell, &ev) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static int engine_engine_watch(struct mpib_engine *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int rc = 0;

	if (epoll_ctl(e->epfd, EPOLL_CTL_ADD, e->mailbox.bell.fd, &ev) < 0)
		return -errno;
	for (unsigned i = 0; i < e->shards && rc == 0; i++) {
		for (unsigned r = 0; r < e->cfg.rails && rc == 0; r++)
			rc = engine_watch_rail(e, &e->shard[i].rail[r]);
	}
	return rc;
}

/* A shard is crowded if more shards than CPUs are pinned to its CPUs. Unpin the
 * crowded shards. Otherwise they would wait for each other while other CPUs are
 * idle. */
static void unpin_crowds(struct mpib_engine *e)
{
	bool crowded[MPIB_SHARDS_MAX];

	for (unsigned i = 0; i < e->shards; i++) {
		const struct mpib_shard *s = &e->shard[i];
		int n = 0;

		for (unsigned k = 0; k < e->shards; k++)
			n += e->shard[k].pinned &&
			     CPU_EQUAL(&e->shard[k].cpus, &s->cpus);
		crowded[i] = s->pinned && n > CPU_COUNT(&s->cpus);
	}
	for (unsigned i = 0; i < e->shards; i++)
		e->shard[i].pinned &= !crowded[i];
}

static int init_shards(struct mpib_engine *e, char *why, size_t why_len)
{
	int rc;

	for (unsigned i = 0; i < e->cfg.devices * e->cfg.shards; i++) {
		rc = mpib_shard_init(&e->shard[i], e, i, why, why_len);
		if (rc < 0)
			return rc;
		e->shards++;
	}
	unpin_crowds(e);
	rc = mpib_engine_probe(e, why, why_len);
	if (rc < 0)
		return rc;
	mpib_engine_settle_ports(e);
	rc = engine_engine_watch(e);
	if (rc < 0)
		snprintf(why, why_len, "cannot watch the rails: %s",
			 strerror(-rc));
	return rc;
}

int mpib_engine_open_idle(const struct mpib_engine_config *cfg,
			  const struct mpib_engine_events *events, void *ctx,
			  struct mpib_engine **engine, char *why,
			  size_t why_len)
{
	size_t bytes =
		sizeof(struct mpib_engine) +
		(size_t)cfg->devices * cfg->shards * sizeof(struct mpib_shard);
	struct mpib_engine *e = calloc(1, bytes);
	int rc = -ENOMEM;

	*why = '\0';
	if (!e)
		goto err_why;
	e->cfg = *cfg;
	e->events = events;
	e->ctx = ctx;
	rc = mpib_mailbox_init(&e->mailbox);
	if (rc < 0)
		goto err_free;
	e->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epfd < 0) {
		rc = -errno;
		goto err_mailbox;
	}
	rc = mpib_failover_init(e);
	if (rc < 0)
		goto err_epfd;
	rc = make_status(e);
	if (rc < 0)
		goto err_failover;
	rc = init_shards(e, why, why_len);
	if (rc < 0)
		goto err_shards;
	*engine = e;
	return 0;

err_shards:
	while (e->shards > 0)
		mpib_shard_fini(&e->shard[--e->shards]);
	mpib_memseg_fini(&e->status_seg);
err_failover:
	mpib_failover_fini(e);
err_epfd:
	close(e->epfd);
err_mailbox:
	mpib_mailbox_fini(&e->mailbox);
err_free:
	free(e);
err_why:
	if (!*why)
		snprintf(why, why_len, "engine: %s", strerror(-rc));
	return rc;
}

/* Start the shard threads. Return -errno if one of them did not start. */
static int start_shards(struct mpib_engine *e)
{
	int rc = 0;

	while (rc == 0 && e->running < e->shards) {
		rc = mpib_shard_start(&e->shard[e->running]);
		e->running += rc == 0;
	}
	return rc;
}

int mpib_engine_open(const struct mpib_engine_config *cfg,
		     const struct mpib_engine_events *events, void *ctx,
		     struct mpib_engine **engine, char *why, size_t why_len)
{
	struct mpib_engine *e;
	int rc = mpib_engine_open_idle(cfg, events, ctx, &e, why, why_len);

	if (rc < 0)
		return rc;
	rc = start_shards(e);
	if (rc < 0)
		goto err_close;
	*engine = e;
	return 0;

err_close:
	mpib_engine_close(e);
	snprintf(why, why_len, "cannot start a shard: %s", strerror(-rc));
	return rc;
}

static void free_job(struct mpib_lane_rail *rail)
{
	struct mpib_call *call = rail->stopped ? rail->stopped : rail->probed;

	if (!call)
		return;
	mpib_rail_job_free(call->what);
	free(call);
}

static void free_lanes(struct mpib_shard *s)
{
	struct mpib_lane *lane;

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		HASH_CLEAR(hh, s->rail[r].qps);
	while ((lane = TAILQ_FIRST(&s->lanes))) {
		struct engine_conn *f;

		TAILQ_REMOVE(&s->lanes, lane, link);
		while ((f = TAILQ_FIRST(&lane->conns))) {
			TAILQ_REMOVE(&lane->conns, f, lane_link);
			free(f->stop); /* its callback will not run */
			free(f);
		}
		free(lane->kill);
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			free_job(&lane->rail[r]);
		mpib_lane_free(lane);
	}
}

static void free_clients(struct mpib_shard *s)
{
	struct engine_client *a;

	while ((a = TAILQ_FIRST(&s->clients))) {
		TAILQ_REMOVE(&s->clients, a, link);
		engine_client_free(a);
	}
}

void mpib_engine_halt(struct mpib_engine *engine)
{
	int ran;

	while (engine->running > 0)
		mpib_shard_join(&engine->shard[--engine->running]);
	do {
		ran = mpib_mailbox_run(&engine->mailbox);
		for (unsigned i = 0; i < engine->shards; i++)
			ran += mpib_mailbox_run(&engine->shard[i].mailbox);
	} while (ran > 0);
}

void mpib_engine_close(struct mpib_engine *engine)
{
	struct mpib_lane *lane;

	mpib_engine_halt(engine);
	engine->closing = true;
	for (unsigned i = 0; i < engine->shards; i++) {
		free_lanes(&engine->shard[i]);
		free_clients(&engine->shard[i]);
	}
	while ((lane = TAILQ_FIRST(&engine->asked)))
		mpib_lane_free(lane);
	mpib_tenants_free(engine);
	while (engine->shards > 0)
		mpib_shard_fini(&engine->shard[--engine->shards]);
	mpib_memseg_fini(&engine->status_seg);
	mpib_failover_fini(engine);
	close(engine->epfd);
	mpib_mailbox_fini(&engine->mailbox);
	free(engine);
}

int mpib_engine_fd(const struct mpib_engine *engine)
{
	return engine->epfd;
}

void mpib_engine_dispatch(struct mpib_engine *engine)
{
	struct epoll_event events[8];

	/* Consume the edge-triggered events: epfd stays readable until they are
	 * reported. Call epoll_wait() before the work, so that an event during
	 * the work makes epfd readable again. */
	epoll_wait(engine->epfd, events, 8, 0);
	mpib_mailbox_run(&engine->mailbox);
	for (unsigned i = 0; i < engine->shards; i++)
		mpib_async_turn(&engine->shard[i]);
	mpib_failover_dispatch(engine);
}

unsigned mpib_engine_shards(const struct mpib_engine *engine)
{
	return engine->shards;
}

int mpib_engine_status_fd(const struct mpib_engine *engine)
{
	return engine->status_seg.fd;
}

struct mpib_rail *mpib_engine_rail(struct mpib_engine *e, unsigned rail)
{
	unsigned device = rail / e->cfg.rails;

	return &e->shard[(size_t)device * e->cfg.shards]
			.rail[rail % e->cfg.rails];
}

int mpib_engine_port(struct mpib_engine *engine, unsigned rail,
		     struct mpib_port_info *info)
{
	const struct mpib_port_info *port =
		&mpib_engine_rail(engine, rail)->port;

	if (port->state == IBV_PORT_NOP)
		return -EIO;
	*info = *port;
	return 0;
}

const char *mpib_engine_place(struct mpib_engine *engine, unsigned rail)
{
	return mpib_engine_rail(engine, rail)->port.pci_path;
}

int mpib_engine_node(const struct mpib_engine *engine, unsigned shard)
{
	return mpib_shard_node(&engine->shard[shard]);
}

const char *mpib_engine_provider(struct mpib_engine *engine, unsigned rail)
{
	struct mpib_rail *r = mpib_engine_rail(engine, rail);

	if (r->verbs != &mpib_verbs_soft || !r->ctx)
		return r->verbs->name;
	return strcmp(mpib_soft_engine_name(r->ctx), "epoll")
		       ? "soft (io_uring)"
		       : "soft (epoll)";
}

bool mpib_engine_dmabuf(const struct mpib_engine *engine)
{
	return engine->dmabuf;
}

void mpib_engine_set_hints(struct mpib_engine *engine,
			   const struct mpib_hint_shm *hints)
{
	engine->hints = hints;
}

/* Settings that may change while the engine runs. The control thread writes
 * them and the shards read them, with relaxed atomics. The values are
 * independent of each other, and a send op with an old value is harmless. */

static void tune_store(uint32_t *to, uint32_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

void mpib_engine_tune(struct mpib_engine *engine,
		      const struct mpib_engine_config *cfg)
{
	if (engine->cfg.sup_bw != cfg->sup_bw)
		atomic_store_explicit(&engine->sup_bw_since, mpib_now_ns(),
				      memory_order_relaxed);
	tune_store(&engine->cfg.sup_bw, cfg->sup_bw);
	tune_store(&engine->cfg.lane_window, cfg->lane_window);
	tune_store(&engine->cfg.share_window, cfg->share_window);
	engine->cfg.cq_whole = cfg->cq_whole; /* only this thread uses it */
}

uint64_t mpib_engine_grace_ns(const struct mpib_engine *engine)
{
	return engine->cfg.grace_ms * 1000000ull;
}

/* Return the mask of all rails of the device. */
static uint32_t drain_all(const struct mpib_engine *engine, unsigned device)
{
	return ((1u << engine->cfg.rails) - 1) << device * engine->cfg.rails;
}

/* Drain the rails that the operator drains. Also drain the sick rails of each
 * device, unless that device would have no rail left. */
static void drain_apply(struct mpib_engine *engine, uint32_t operators)
{
	uint32_t before = mpib_engine_drained(engine), off = operators;

	for (unsigned d = 0; d < engine->cfg.devices; d++) {
		uint32_t all = drain_all(engine, d);
		uint32_t sick =
			(uint32_t)engine->sick << d * engine->cfg.rails & all;

		if (((off | sick) & all) != all)
			off |= sick;
	}
	engine->drained_sick = off & ~operators;
	atomic_store_explicit(&engine->drained, off, memory_order_relaxed);
	for (unsigned d = 0; d < engine->cfg.devices; d++) {
		if ((before ^ off) & drain_all(engine, d))
			mpib_rail_drain(engine, d);
	}
}

int mpib_engine_drain(struct mpib_engine *engine, unsigned rail, bool on)
{
	uint32_t all = drain_all(engine, rail / engine->cfg.rails);
	uint32_t off = mpib_engine_drained(engine) & ~engine->drained_sick;

	off = on ? off | 1u << rail : off & ~(1u << rail);
	if (on && (off & all) == all)
		return -EBUSY;
	drain_apply(engine, off);
	return 0;
}

void mpib_engine_drain_sick(struct mpib_engine *engine, uint8_t sick)
{
	engine->sick = sick;
	drain_apply(engine,
		    mpib_engine_drained(engine) & ~engine->drained_sick);
}

uint32_t mpib_engine_drained_sick(const struct mpib_engine *engine)
{
	return engine->drained_sick;
}

uint32_t mpib_engine_drained(const struct mpib_engine *engine)
{
	return atomic_load_explicit(&engine->drained, memory_order_relaxed);
}

void mpib_engine_break(struct mpib_engine *engine, unsigned rail)
{
	unsigned device = rail / engine->cfg.rails;
	struct mpib_lane *lane;

	rail %= engine->cfg.rails;
	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (lane->shard->device == device && rail < lane->rails)
			mpib_lane_rail_to_err(lane, rail);
	}
}
