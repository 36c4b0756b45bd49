/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate devices, contexts, ports and asynchronous events. */
#include "sim_hca.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_sock.h"
#include "sim_task.h"
#include "sim_wrap.h"
#include "verbs/verbs.h"

static struct sim_device devices[SIM_NODES][SIM_RAILS];
static struct sim_rng chance = { 1 };
static bool made;

void sim_hca_seed(uint64_t seed)
{
	sim_rng_seed(&chance, seed, "device");
}

static uint32_t message;

void sim_hca_messages(uint32_t most)
{
	message = most;
}

uint32_t sim_device_message(const struct sim_device *d)
{
	return message ? message << (d->node + d->rail) % 3 : 1u << 31;
}

uint64_t sim_hca_draw(uint64_t n)
{
	return sim_draw(&chance, n);
}

struct sim_device *sim_device(unsigned node, unsigned rail)
{
	for (unsigned n = 0; !made && n < SIM_NODES; n++) {
		for (unsigned r = 0; r < SIM_RAILS; r++) {
			devices[n][r].node = n;
			devices[n][r].rail = r;
			devices[n][r].there = true;
			TAILQ_INIT(&devices[n][r].posted);
			LIST_INIT(&devices[n][r].contexts);
		}
	}
	made = true;
	return &devices[node][rail];
}

void sim_hca_note(struct sim_ctx *ctx, enum ibv_event_type type, void *element)
{
	struct sim_note *n;

	/* Like a driver, queue the event only if no equal event is queued. */
	TAILQ_FOREACH(n, &ctx->notes, link)
	{
		if (element && n->event.event_type == type &&
		    n->event.element.qp == element)
			return;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		abort();
	n->event.event_type = type;
	if (element)
		n->event.element.qp = element;
	else
		n->event.element.port_num = 1;
	TAILQ_INSERT_TAIL(&ctx->notes, n, link);
	sim_counter_add(ctx->async, 1);
}

void sim_hca_forget_notes(struct sim_ctx *ctx, const void *element)
{
	struct sim_note *n, *next;

	for (n = TAILQ_FIRST(&ctx->notes); n; n = next) {
		next = TAILQ_NEXT(n, link);
		if (n->event.element.qp != element)
			continue;
		TAILQ_REMOVE(&ctx->notes, n, link);
		free(n);
	}
}

static int get_async_event(struct ibv_context *c, struct ibv_async_event *ev)
{
	struct sim_ctx *ctx = sim_ctx(c);
	struct sim_note *n;
	uint64_t one;

	do {
		if (__wrap_read(c->async_fd, &one, sizeof(one)) < 0)
			return -errno;
		if (ctx->hung)
			return -ETIMEDOUT;
		n = TAILQ_FIRST(&ctx->notes);
	} while (!n);
	TAILQ_REMOVE(&ctx->notes, n, link);
	*ev = n->event;
	free(n);
	return 0;
}

static void ack_async_event(struct ibv_async_event *ev)
{
	(void)ev;
}

void sim_device_link(struct sim_device *d, bool up)
{
	struct sim_ctx *ctx;

	if (d->down == !up)
		return;
	d->down = !up;
	LIST_FOREACH(ctx, &d->contexts, link)
	{
		if (!ctx->dead)
			sim_hca_note(ctx,
				     up ? IBV_EVENT_PORT_ACTIVE
					: IBV_EVENT_PORT_ERR,
				     NULL);
	}
}

void sim_ctx_die(struct sim_ctx *ctx)
{
	struct sim_qp *qp;

	ctx->dead = true;
	LIST_FOREACH(qp, &ctx->all_qps, link)
	{
		sim_qp_quiet(qp);
	}
}

static void on_tells(void *arg)
{
	struct sim_device *d = arg;
	struct sim_ctx *ctx;

	LIST_FOREACH(ctx, &d->contexts, link)
	{
		if (!ctx->dead || ctx->told)
			continue;
		ctx->told = true;
		sim_hca_note(ctx, IBV_EVENT_DEVICE_FATAL, NULL);
	}
}

void sim_device_lose_at(struct sim_device *d, unsigned calls, uint64_t later)
{
	d->calls = calls;
	d->told_late = later;
	if (!calls)
		sim_device_lose(d, later);
}

void sim_device_lose(struct sim_device *d, uint64_t later)
{
	struct sim_ctx *ctx;

	d->there = false;
	d->calls = 0;
	sim_posted_push(d);
	LIST_FOREACH(ctx, &d->contexts, link)
	{
		if (!ctx->dead)
			sim_ctx_die(ctx);
	}
	if (later)
		sim_event_arm(&d->tells, sim_now + later, on_tells, d);
	else
		on_tells(d);
}

void sim_hca_proc_ended(struct sim_proc *proc)
{
	for (unsigned i = 0; i < SIM_NODES * SIM_RAILS; i++) {
		struct sim_device *d = sim_device(i / SIM_RAILS, i % SIM_RAILS);
		struct sim_ctx *ctx, *next;
		struct sim_qp *qp;

		for (ctx = LIST_FIRST(&d->contexts); ctx; ctx = next) {
			next = LIST_NEXT(ctx, link);
			if (ctx->owner != proc)
				continue;
			sim_ctx_die(ctx);
			ctx->ended = true;
			LIST_FOREACH(qp, &ctx->all_qps, link)
			{
				sim_qp_unlist(qp);
			}
			LIST_REMOVE(ctx, link);
			sim_file_put(ctx->async);
		}
	}
}

unsigned sim_hca_open_contexts(const struct sim_proc *proc)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SIM_NODES * SIM_RAILS; i++) {
		const struct sim_device *d =
			sim_device(i / SIM_RAILS, i % SIM_RAILS);
		const struct sim_ctx *ctx;

		LIST_FOREACH(ctx, &d->contexts, link)
		{
			n += !proc || ctx->owner == proc;
		}
	}
	return n;
}

struct sim_qp *sim_device_qp(struct sim_device *d)
{
	struct sim_qp *qp, *found = NULL;
	struct sim_ctx *ctx;
	unsigned n = 0;

	LIST_FOREACH(ctx, &d->contexts, link)
	{
		LIST_FOREACH(qp, &ctx->all_qps, link)
		{
			if (qp->ibv.state == IBV_QPS_RTS && !ctx->dead &&
			    sim_hca_draw(++n) == 0)
				found = qp;
		}
	}
	return found;
}

static int hca_open(const struct mpib_rail_spec *spec, struct ibv_context **out)
{
	unsigned node, rail;
	struct sim_device *d;
	struct sim_ctx *ctx;

	if (sscanf(spec->name, "sim%u_%u", &node, &rail) != 2 ||
	    node >= SIM_NODES || rail >= SIM_RAILS)
		return -ENODEV;
	d = sim_device(node, rail);
	if (!d->there)
		return -ENODEV;
	if (!sim_device_answers(d))
		return -EIO;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	ctx->device = d;
	ctx->owner = sim_proc_self();
	TAILQ_INIT(&ctx->notes);
	LIST_INIT(&ctx->all_qps);
	ctx->async = sim_counter_new(true);
	sim_file_hold(ctx->async);
	snprintf(ctx->dev.name, sizeof(ctx->dev.name), "%s", spec->name);
	ctx->dev.node_type = IBV_NODE_CA;
	ctx->dev.transport_type = IBV_TRANSPORT_IB;
	ctx->vctx.sz = sizeof(ctx->vctx);
	ctx->vctx.context.device = &ctx->dev;
	ctx->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->vctx.context.num_comp_vectors = 1;
	ctx->vctx.context.cmd_fd = -1;
	ctx->vctx.context.async_fd = sim_fd_new(ctx->async);
	ctx->vctx.context.ops.post_send = sim_post_send;
	ctx->vctx.context.ops.post_recv = sim_post_recv;
	ctx->vctx.context.ops.post_srq_recv = sim_post_srq_recv;
	ctx->vctx.context.ops.poll_cq = sim_poll_cq;
	ctx->vctx.context.ops.req_notify_cq = sim_req_notify_cq;
	LIST_INSERT_HEAD(&d->contexts, ctx, link);
	*out = &ctx->vctx.context;
	return 0;
}

static int hca_close(struct ibv_context *c)
{
	struct sim_ctx *ctx = sim_ctx(c);
	struct sim_note *n;

	if (ctx->pds || ctx->cqs || ctx->qps || ctx->channels)
		return -EBUSY;
	LIST_REMOVE(ctx, link);
	while ((n = TAILQ_FIRST(&ctx->notes))) {
		TAILQ_REMOVE(&ctx->notes, n, link);
		free(n);
	}
	__wrap_close(c->async_fd);
	sim_file_put(ctx->async);
	free(ctx->mr);
	free(ctx);
	return 0;
}

static int query_port(struct ibv_context *c, uint8_t port,
		      struct mpib_port_info *info)
{
	struct sim_ctx *ctx = sim_ctx(c);
	const struct sim_device *d = ctx->device;

	if (port != 1)
		return -EINVAL;
	if (ctx->dead)
		return -EIO;
	*info = (struct mpib_port_info){
		.speed_mbps = 200000,
		.gid_index = 1,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.pkeys = 1,
		.numa_node = -1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.state = d->down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
		.mtu = IBV_MTU_4096,
		.max_inline = SIM_INLINE,
		.max_msg_sz = sim_device_message(d),
		.dev = { .max_mr_size = UINT64_MAX,
			 .max_qp = 1 << 16,
			 .max_qp_wr = SIM_WR,
			 .max_cqe = SIM_CQE,
			 .max_srq_wr = SIM_WR,
			 .max_qp_rd_atom = 16,
			 .max_qp_init_rd_atom = 16 },
	};
	info->gid.raw[10] = info->gid.raw[11] = 0xff;
	info->gid.raw[12] = 10;
	info->gid.raw[13] = (uint8_t)(100 + d->rail);
	info->gid.raw[15] = (uint8_t)(d->node + 1);
	return 0;
}

static int query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return -EOPNOTSUPP;
}

static int set_ece(struct ibv_qp *qp, const struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return -EOPNOTSUPP;
}

static bool disarm_cq(struct ibv_cq *cq, bool spoke)
{
	(void)cq;
	return spoke;
}

static int no_bell(void)
{
	return -EOPNOTSUPP;
}

const struct mpib_verbs sim_verbs = {
	.name = "sim",
	.open = hca_open,
	.close = hca_close,
	.query_port = query_port,
	.alloc_pd = sim_alloc_pd,
	.dealloc_pd = sim_dealloc_pd,
	.reg_mr = sim_asks_reg_mr,
	.reg_dmabuf_mr = sim_reg_dmabuf_mr,
	.dereg_mr = sim_asks_dereg_mr,
	.create_comp_channel = sim_create_channel,
	.destroy_comp_channel = sim_destroy_channel,
	.create_cq = sim_create_cq,
	.disarm_cq = disarm_cq,
	.motion = sim_motion,
	.destroy_cq = sim_destroy_cq,
	.get_cq_event = sim_get_cq_event,
	.ack_cq_events = sim_ack_cq_events,
	.create_srq = sim_create_srq,
	.modify_srq = sim_modify_srq,
	.query_srq = sim_query_srq,
	.destroy_srq = sim_destroy_srq,
	.create_qp = sim_asks_create_qp,
	.modify_qp = sim_asks_modify_qp,
	.query_qp = sim_query_qp,
	.destroy_qp = sim_asks_destroy_qp,
	.query_ece = query_ece,
	.set_ece = set_ece,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.bell = no_bell,
};

const struct mpib_verbs *__wrap_mpib_verbs_of(const struct mpib_rail_spec *s)
{
	(void)s;
	return &sim_verbs;
}
