/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of the software HCA (open, close and port queries), and its verbs
 * table. */
#include "verbs/soft/ctx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/address.h"
#include "base/log.h"
#include "base/text.h"
#include "verbs/soft/cq.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/soft_conn.h"
#include "verbs/soft/wire/soft_wire.h"
#include "verbs/verbs.h"

/*
 * Speed of a rail whose interface reports no speed (loopback, most virtual
 * interfaces). NCCL chooses algorithm and protocol by this speed. One TCP
 * stream over loopback reaches about 40 Gb/s. But when mpib reported 40 Gb/s
 * for a software rail, NCCL chose badly. When mpib reported 5 Gb/s, an
 * all-reduce of 1 MiB from ordinary memory was twice as fast (measured by
 * bench/nccl --nets MPIB,Socket).
 */
#define SOFT_SPEED_MBPS 5000

const char *mpib_soft_engine_name(struct ibv_context *c)
{
	return to_ctx(c)->engine->name;
}

void soft_lock(struct soft_ctx *ctx)
{
	/* Without threaded mode, no turn begins while `waiters` > 0. Otherwise
	 * a spinning owner thread would take the lock again before this thread
	 * wakes up. */
	atomic_fetch_add(&ctx->waiters, 1);
	pthread_mutex_lock(&ctx->lock);
	atomic_fetch_sub(&ctx->waiters, 1);
}

void soft_unlock(struct soft_ctx *ctx)
{
	pthread_mutex_unlock(&ctx->lock);
	/*
	 * If a thread could not make its turn because the lock was taken, it
	 * may be about to sleep. Such a thread first increments `sleepers`. If
	 * this read-modify-write sees the increment, this function kicks the
	 * thread. If it does not see the increment, the thread increments after
	 * the unlock. After the increment, the thread makes another turn before
	 * it sleeps, and this turn finds the lock free.
	 */
	if (atomic_fetch_add(&ctx->sleepers, 0) > 0)
		soft_kick(ctx);
}

static int open_engine(struct soft_ctx *ctx, const struct soft_engine *engine)
{
	int rc = engine->open(ctx);

	if (rc == 0)
		ctx->engine = engine;
	return rc;
}

static int device_open_engine(struct soft_ctx *ctx)
{
	const char *env = getenv("MPIB_SOFT_ENGINE");
	bool any = !env || !*env, uring = !any && !strcmp(env, "io_uring");
	int rc = -ENOSYS;

	if (!any && !uring && strcmp(env, "epoll"))
		return -EINVAL;
	if (uring || (any && !ctx->threaded))
		rc = open_engine(ctx, &soft_engine_uring);
	if (rc < 0 && !uring)
		rc = open_engine(ctx, &soft_engine_epoll);
	return rc;
}

/* Find the first of the device's 256 ports. Each context listens on the first
 * of these ports that is free. */
static int find_port_base(struct soft_ctx *ctx)
{
	const char *env = getenv("MPIB_SOFT_PORT_BASE");
	uint64_t base;

	ctx->port_base = 24791;
	if (!env || !*env)
		return 0;
	if (!mpib_number(env, 1, UINT16_MAX - 255, &base))
		return -EINVAL;
	ctx->port_base = (uint16_t)base;
	return 0;
}

uint64_t mpib_soft_speed_mbps(struct in_addr addr, const char *sysfs)
{
	struct in6_addr own = mpib_address_of_ip(addr.s_addr);
	char name[IF_NAMESIZE], text[32];
	uint64_t mbps;

	mpib_address_interface(&own, name);
	if (*name &&
	    mpib_read_line(text, sizeof(text), "%s/class/net/%s/speed", sysfs,
			   name) &&
	    mpib_number(text, 1, UINT32_MAX - 1, &mbps)) /* -1: unknown */
		return mbps;
	return SOFT_SPEED_MBPS;
}

/* The limits of the software HCA: built-in ones, or lower ones from
 * MPIB_SOFT_LIMITS. */

/* An OUI that is locally administered, like the MAC in the GUID. */
#define VENDOR_LOCAL 0x020000

#define DEV(member)                                                            \
	{                                                                      \
#member, offsetof(struct mpib_soft_limits, dev.member),        \
			sizeof(((struct ibv_device_attr *)NULL)->member)       \
	}
#define OWN(member)                                                            \
	{                                                                      \
#member, offsetof(struct mpib_soft_limits, member),            \
			sizeof(((struct mpib_soft_limits *)NULL)->member)      \
	}

static const struct {
	const char *name;
	size_t at, size; /* offset and size of the field in bytes */
} lowered[] = {
	OWN(max_msg_sz), OWN(max_inline_data), DEV(max_mr_size),
	DEV(max_qp),	 DEV(max_qp_wr),       DEV(max_sge),
	DEV(max_cq),	 DEV(max_cqe),	       DEV(max_mr),
	DEV(max_pd),	 DEV(max_qp_rd_atom),  DEV(max_qp_init_rd_atom),
	DEV(max_srq),	 DEV(max_srq_wr),
};

static void limits_of_own(struct mpib_soft_limits *l)
{
	l->max_msg_sz = SOFT_MAX_MSG;
	l->max_inline_data = SOFT_MAX_INLINE;
	l->dev = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.page_size_cap = UINT64_MAX & ~0xfffull,
		.vendor_id = VENDOR_LOCAL,
		.vendor_part_id = 1,
		.hw_ver = 1,
		.max_qp = SOFT_NQP - 2,
		.max_qp_wr = SOFT_MAX_WR,
		.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_PORT_ACTIVE_EVENT,
		.max_sge = SOFT_MAX_SGE,
		.max_sge_rd = SOFT_MAX_SGE,
		.max_cq = SOFT_NQP,
		.max_cqe = SOFT_MAX_CQE,
		.max_mr = SOFT_MAX_MR,
		.max_pd = SOFT_NQP,
		.max_qp_rd_atom = SOFT_MAX_RD,
		.max_res_rd_atom = SOFT_MAX_RD * (SOFT_NQP - 2),
		.max_qp_init_rd_atom = SOFT_MAX_RD,
		.atomic_cap = IBV_ATOMIC_NONE,
		.max_srq = SOFT_NQP,
		.max_srq_wr = SOFT_MAX_WR,
		.max_srq_sge = SOFT_MAX_SGE,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	snprintf(l->dev.fw_ver, sizeof(l->dev.fw_ver), "soft.1");
}

/* Set the limit to a value that does not exceed the current one. */
static int limit_lower(struct mpib_soft_limits *l, const char *name,
		       const char *text)
{
	for (unsigned i = 0; i < sizeof(lowered) / sizeof(lowered[0]); i++) {
		char *member = (char *)l + lowered[i].at;
		uint64_t was = 0, value;

		if (strcmp(name, lowered[i].name) != 0)
			continue;
		/* This copy assumes a little-endian machine, like every machine
		 * that mpib builds for. */
		memcpy(&was, member, lowered[i].size);
		if (!mpib_number(text, 0, was, &value))
			return -EINVAL;
		memcpy(member, &value, lowered[i].size);
		return 0;
	}
	return -EINVAL;
}

/* Apply one entry of MPIB_SOFT_LIMITS: [ADDRESS/]NAME=VALUE. */
static int limit_take(struct soft_ctx *ctx, char *entry)
{
	char *slash = strchr(entry, '/'), *equals = strchr(entry, '=');
	char address[INET_ADDRSTRLEN];

	if (!equals)
		return -EINVAL;
	*equals = '\0';
	if (!slash)
		return limit_lower(&ctx->limits, entry, equals + 1);
	*slash = '\0';
	inet_ntop(AF_INET, &ctx->addr, address, sizeof(address));
	return strcmp(entry, address) != 0
		       ? 0
		       : limit_lower(&ctx->limits, slash + 1, equals + 1);
}

/* Set the context's limits. Return -EINVAL if MPIB_SOFT_LIMITS is invalid. */
static int limits_init(struct soft_ctx *ctx)
{
	const char *env = getenv("MPIB_SOFT_LIMITS");
	char *text, *entry, *rest;
	int rc = 0;

	limits_of_own(&ctx->limits);
	if (!env || !*env)
		return 0;
	text = strdup(env);
	if (!text)
		return -ENOMEM;
	for (entry = strtok_r(text, ",", &rest); entry && rc == 0;
	     entry = strtok_r(NULL, ",", &rest))
		rc = limit_take(ctx, entry);
	free(text);
	return rc;
}

static void init_identity(struct soft_ctx *ctx,
			  const struct mpib_rail_spec *spec)
{
	ctx->gid = soft_gid_mapped(ctx->addr);
	ctx->speed_mbps = mpib_soft_speed_mbps(ctx->addr, "/sys");
	ctx->dev.node_type = IBV_NODE_CA;
	ctx->dev.transport_type = IBV_TRANSPORT_IB;
	snprintf(ctx->dev.name, sizeof(ctx->dev.name), "soft_%.15s",
		 spec->name);
	ctx->vctx.sz = sizeof(ctx->vctx);
	ctx->vctx.context.device = &ctx->dev;
	ctx->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->vctx.context.num_comp_vectors = 1;
	ctx->vctx.context.cmd_fd = -1;
	ctx->vctx.context.ops.post_send = soft_post_send;
	ctx->vctx.context.ops.post_recv = soft_post_recv;
	ctx->vctx.context.ops.post_srq_recv = soft_post_srq_recv;
	ctx->vctx.context.ops.poll_cq = soft_poll_cq;
	ctx->vctx.context.ops.req_notify_cq = soft_req_notify_cq;
}

static void device_init_lists(struct soft_ctx *ctx)
{
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->ev_lock, NULL);
	pthread_cond_init(&ctx->ev_cond, NULL);
	pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
	TAILQ_INIT(&ctx->to_watch);
	TAILQ_INIT(&ctx->ready);
	TAILQ_INIT(&ctx->idle);
	TAILQ_INIT(&ctx->dead);
	TAILQ_INIT(&ctx->loop_ready);
	TAILQ_INIT(&ctx->timers);
	TAILQ_INIT(&ctx->events);
	LIST_INIT(&ctx->channels);
	ctx->listen_fd = -1;
	ctx->kick.fd = -1;
	ctx->timer_fd = -1;
	ctx->epoll_fd = -1;
	ctx->vctx.context.async_fd = -1;
	ctx->timer_min = UINT64_MAX;
	ctx->idle_min = UINT64_MAX;
}

static void ctx_free(struct soft_ctx *ctx)
{
	for (uint32_t i = 0; i < ctx->conn_size; i++)
		if (ctx->conn_tab[i])
			soft_conn_close(ctx->conn_tab[i]);
	/* Reap after closing the engine, because closing the engine releases
	 * every conn. */
	if (ctx->engine)
		ctx->engine->close(ctx);
	ctx->engine = NULL;
	soft_conn_reap(ctx);
	if (ctx->listen_fd >= 0)
		close(ctx->listen_fd);
	if (ctx->kick.fd >= 0)
		mpib_bell_fini(&ctx->kick);
	if (ctx->timer_fd >= 0)
		close(ctx->timer_fd);
	if (ctx->vctx.context.async_fd >= 0)
		close(ctx->vctx.context.async_fd);
	if (ctx->vctx.context.cmd_fd >= 0)
		close(ctx->vctx.context.cmd_fd);
	soft_mr_table_free(&ctx->mrs);
	free(ctx->conn_tab);
	free(ctx->qps);
	free(ctx->ops);
	pthread_cond_destroy(&ctx->ev_cond);
	pthread_mutex_destroy(&ctx->ev_lock);
	pthread_mutex_destroy(&ctx->lock);
	pthread_mutex_destroy(&ctx->vctx.context.mutex);
	free(ctx);
}

static int init_resources(struct soft_ctx *ctx)
{
	int rc;

	ctx->qps = calloc(SOFT_NQP, sizeof(*ctx->qps));
	ctx->ops = calloc(SOFT_OPS, sizeof(*ctx->ops));
	if (!ctx->qps || !ctx->ops)
		return -ENOMEM;
	rc = soft_stream_init();
	if (rc < 0)
		return rc;
	rc = mpib_bell_init(&ctx->kick);
	if (rc < 0)
		return rc;
	ctx->timer_fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	ctx->vctx.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (ctx->timer_fd < 0 || ctx->vctx.context.async_fd < 0)
		return -errno;
	/* Verbs programs may dup() cmd_fd. The fd is never read or written. */
	if (ctx->threaded)
		ctx->vctx.context.cmd_fd = eventfd(0, EFD_CLOEXEC);
	if (ctx->threaded && ctx->vctx.context.cmd_fd < 0)
		return -errno;
	if (getrandom(&ctx->qp_hint, sizeof(ctx->qp_hint), 0) !=
	    sizeof(ctx->qp_hint))
		return -EIO;
	if (getrandom(&ctx->lives, sizeof(ctx->lives), 0) != sizeof(ctx->lives))
		return -EIO;
	rc = soft_faults_begin(ctx);
	if (rc < 0)
		return rc;
	rc = soft_listen(ctx);
	return rc < 0 ? rc : device_open_engine(ctx);
}

static int soft_open_mode(const struct mpib_rail_spec *spec, bool threaded,
			  struct ibv_context **out)
{
	struct soft_ctx *ctx;
	struct in_addr addr;
	int rc;

	if (spec->provider != MPIB_PROVIDER_SOFT || spec->port != 1 ||
	    inet_pton(AF_INET, spec->name, &addr) != 1)
		return -EINVAL;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;

	ctx->addr = addr;
	ctx->threaded = threaded;
	device_init_lists(ctx);
	init_identity(ctx, spec);
	rc = limits_init(ctx);
	if (rc == 0)
		rc = find_port_base(ctx);
	if (rc == 0)
		rc = init_resources(ctx);
	if (rc < 0)
		goto err_free;
	if (threaded) {
		rc = soft_thread_start(ctx);
		if (rc < 0)
			goto err_free;
	}
	mpib_debug("soft device %s slot %u engine %s", spec->name, ctx->slot,
		   ctx->engine->name);
	*out = &ctx->vctx.context;
	return 0;

err_free:
	ctx_free(ctx);
	return rc;
}

static int soft_open(const struct mpib_rail_spec *spec,
		     struct ibv_context **out)
{
	return soft_open_mode(spec, false, out);
}

int mpib_soft_open_threaded(const struct mpib_rail_spec *spec,
			    struct ibv_context **out)
{
	return soft_open_mode(spec, true, out);
}

static int soft_close(struct ibv_context *c)
{
	struct soft_ctx *ctx = to_ctx(c);
	bool busy;

	soft_lock(ctx);
	busy = ctx->nqps || ctx->npds || ctx->ncqs || ctx->nchannels;
	soft_unlock(ctx);
	if (busy)
		return -EBUSY;
	soft_thread_stop(ctx);
	ctx_free(ctx);
	return 0;
}

void mpib_soft_abandon(struct ibv_context *c)
{
	struct soft_ctx *ctx = to_ctx(c);

	soft_lock(ctx);
	for (uint32_t i = 0; i < SOFT_NQP; i++)
		if (ctx->qps[i].qp)
			soft_conn_leave(ctx->qps[i].qp);
	soft_unlock(ctx);
	soft_thread_stop(ctx);
	ctx_free(ctx);
}

static int soft_query_port(struct ibv_context *c, uint8_t port,
			   struct mpib_port_info *info)
{
	struct soft_ctx *ctx = to_ctx(c);
	const struct mpib_soft_limits *most = &ctx->limits;

	if (port != 1)
		return -EINVAL;
	if (soft_is_gone(ctx))
		return -EIO;
	soft_lock(ctx);
	*info = (struct mpib_port_info){
		.speed_mbps = ctx->speed_mbps,
		.gid = ctx->gid,
		.gid_index = 1,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.pkeys = 1,
		.numa_node = -1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.state = ctx->fault.link_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
		.mtu = IBV_MTU_4096,
		.max_inline = most->max_inline_data,
		.max_msg_sz = most->max_msg_sz,
		.dev = most->dev,
	};
	soft_unlock(ctx);
	return 0;
}

static bool device_motion(struct ibv_context *c, struct ibv_qp *qp,
			  struct mpib_motion *motion)
{
	struct soft_ctx *ctx = to_ctx(c);

	if (pthread_mutex_trylock(&ctx->lock))
		return false;
	motion->turns = ctx->turn + 1;
	if (qp)
		motion->came += to_qp(qp)->came;
	pthread_mutex_unlock(&ctx->lock);
	return true;
}

static int device_no_bell(void)
{
	return -EOPNOTSUPP;
}

const struct mpib_verbs mpib_verbs_soft = {
	.name = "soft",
	.on_demand = true,
	.any_order = true,
	.ece_proves = true,
	.open = soft_open,
	.close = soft_close,
	.query_port = soft_query_port,
	.alloc_pd = soft_alloc_pd,
	.dealloc_pd = soft_dealloc_pd,
	.reg_mr = soft_reg_mr,
	.reg_dmabuf_mr = soft_reg_dmabuf_mr,
	.dereg_mr = soft_dereg_mr,
	.create_comp_channel = soft_create_channel,
	.destroy_comp_channel = soft_destroy_channel,
	.create_cq = soft_create_cq,
	.disarm_cq = soft_disarm_cq,
	.motion = device_motion,
	.destroy_cq = soft_destroy_cq,
	.get_cq_event = soft_get_cq_event,
	.ack_cq_events = soft_ack_cq_events,
	.create_srq = soft_create_srq,
	.modify_srq = soft_modify_srq,
	.query_srq = soft_query_srq,
	.destroy_srq = soft_destroy_srq,
	.create_qp = soft_create_qp,
	.modify_qp = soft_modify_qp,
	.query_qp = soft_query_qp,
	.destroy_qp = soft_destroy_qp,
	.query_ece = soft_query_ece,
	.set_ece = soft_set_ece,
	.get_async_event = soft_get_async_event,
	.ack_async_event = soft_ack_async_event,
	.bell = device_no_bell,
};

const struct mpib_soft_limits *mpib_soft_limits(struct ibv_context *c)
{
	return &to_ctx(c)->limits;
}
