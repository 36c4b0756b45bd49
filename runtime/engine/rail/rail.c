/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a rail of a shard: context, completion channel and CQ.
 * Control thread.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/event.h"
#include "base/log.h"
#include "engine/rail/rail.h"
#include "engine/rail/tenant.h"
#include "engine/shard.h"
#include "verbs/explain.h"
#include "verbs/rdma/rdma.h"

const char *mpib_rail_name(unsigned rail)
{
	return rail == MPIB_RAIL_SOUT ? "SOUT" : "SUP";
}

static int ask_port(struct mpib_rail *rail, const struct mpib_rail_spec *spec,
		    char *why, size_t why_len)
{
	int rc = rail->verbs->query_port(rail->ctx, spec->port, &rail->port);

	if (rc < 0)
		mpib_verbs_explain(spec, NULL, "ibv_query_port", rc, why,
				   why_len);
	return rc;
}

static int open_rail(struct mpib_rail *rail, const struct mpib_rail_spec *spec,
		     uint32_t cqe, char *why, size_t why_len)
{
	const struct mpib_verbs *v = mpib_verbs_of(spec);
	const char *call = "ibv_open_device";
	int rc;

	*rail = (struct mpib_rail){ .verbs = v,
				    .port_num = spec->port,
				    .port.numa_node = -1,
				    .budget.size = cqe };
	rc = v->open(spec, &rail->ctx);
	if (rc < 0)
		goto err_why;
	rc = ask_port(rail, spec, why, why_len);
	if (rc < 0)
		goto err_close;
	if (cqe > (uint32_t)rail->port.dev.max_cqe)
		rail->budget.size = (uint32_t)rail->port.dev.max_cqe;
	call = "ibv_create_comp_channel";
	rc = v->create_comp_channel(rail->ctx, &rail->channel);
	if (rc < 0)
		goto err_say;
	fcntl(rail->channel->fd, F_SETFL, O_NONBLOCK);
	call = "ibv_create_cq";
	rc = v->create_cq(rail->ctx, (int)rail->budget.size, rail,
			  rail->channel, &rail->cq);
	if (rc < 0)
		goto err_channel;
	fcntl(rail->ctx->async_fd, F_SETFL,
	      fcntl(rail->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	return 0;

err_channel:
	v->destroy_comp_channel(rail->channel);
err_say:
	mpib_verbs_explain(spec, &rail->port.dev, call, rc, why, why_len);
err_close:
	v->close(rail->ctx);
	rail->ctx = NULL;
	return rc;
err_why:
	mpib_verbs_explain(spec, NULL, call, rc, why, why_len);
	return rc;
}

int mpib_rail_there(const struct mpib_rail_spec *spec)
{
	const struct mpib_verbs *v = mpib_verbs_of(spec);
	struct mpib_port_info port;
	struct ibv_context *ctx;
	int rc = v->open(spec, &ctx);

	if (rc < 0)
		return rc;
	rc = v->query_port(ctx, spec->port, &port);
	if (rc == 0 && port.state != IBV_PORT_ACTIVE)
		rc = -ENETDOWN;
	v->close(ctx);
	return rc;
}

void mpib_rail_close(struct mpib_rail *rail)
{
	if (!rail->ctx)
		return;
	rail->verbs->destroy_cq(rail->cq);
	rail->verbs->destroy_comp_channel(rail->channel);
	rail->verbs->close(rail->ctx);
	rail->ctx = NULL;
}

/* A tenant's shared receive queues. If a queue is empty, the device answers
 * RNR, and the peer pauses. So a queue must hold a receive for each message
 * that can arrive between two turns. The queue grows with the number of
 * receiving connections. The control thread sets the target, and the shard
 * thread fills the queue. */

/* The queue grows with each connection up to this many connections, which is
 * the most that one client can have. */
#define GROWS_FOR 1024u

uint32_t mpib_srq_size(const struct mpib_shard *s, unsigned rail)
{
	uint32_t high = s->engine->cfg.srq_high;
	uint32_t most = (uint32_t)s->rail[rail].port.dev.max_srq_wr;
	uint32_t size = high + GROWS_FOR * MPIB_SRQ_PER_CONN;

	/* `most` is at least srq.high: the probe has checked that. */
	return size < most ? size : most;
}

/* Return whether the queue may grow. There are two limits. At most half of the
 * CQ may be promised, because the QPs and the initial receives (srq.high) of
 * other users need the other half. The tenant's receives may use at most half
 * of the tenant's places, because its QPs need the other half. */
static bool srq_may_grow(const struct mpib_tenant *t, unsigned rail)
{
	const struct mpib_budget *b = &t->shard->rail[rail].budget;
	uint32_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);

	return t->promised[rail] + MPIB_SRQ_PER_CONN <=
		       mpib_srq_size(t->shard, rail) &&
	       t->promised[rail] + MPIB_SRQ_PER_CONN <=
		       mpib_tenant_most(t->shard, rail) / 2 &&
	       promised + MPIB_SRQ_PER_CONN <= b->size / 2;
}

/* Grow the tenant's queue on a rail. A queue never shrinks, because posted
 * receives cannot be withdrawn. */
static void grow_rail(struct mpib_tenant *t, unsigned rail)
{
	const struct mpib_engine_config *cfg = &t->shard->engine->cfg;
	struct mpib_budget *budget = &t->shard->rail[rail].budget;
	uint32_t wanted = cfg->srq_high + t->receivers * MPIB_SRQ_PER_CONN;

	while (t->promised[rail] < wanted && srq_may_grow(t, rail) &&
	       mpib_budget_promise(budget, t->uid, MPIB_SRQ_PER_CONN) == 0)
		t->promised[rail] += MPIB_SRQ_PER_CONN;
	/* Relaxed: the shard may fill the queue up to an old value. The shard
	 * checks again when the mailbox message about the connection
	 * arrives. */
	atomic_store_explicit(&t->srq_low[rail],
			      t->promised[rail] - cfg->srq_high +
				      mpib_srq_least(cfg),
			      memory_order_relaxed);
}

void mpib_srq_joined(struct mpib_tenant *t)
{
	t->receivers++;
	for (unsigned r = 0; r < t->shard->engine->cfg.rails; r++) {
		if (t->srq[r])
			grow_rail(t, r);
	}
}

void mpib_srq_left(struct mpib_tenant *t)
{
	assert(t->receivers > 0);
	t->receivers--;
}

int mpib_srq_fill(struct mpib_tenant *t, unsigned rail)
{
	const struct mpib_engine_config *cfg = &t->shard->engine->cfg;
	uint32_t full =
		mpib_srq_low(t, rail) + cfg->srq_high - mpib_srq_least(cfg);
	struct ibv_recv_wr wr[32], *bad = wr;

	while (t->srq_posted[rail] < full) {
		uint32_t n = full - t->srq_posted[rail];
		struct mpib_budget *budget = &t->shard->rail[rail].budget;

		if (n > 32)
			n = 32;
		if (!mpib_budget_receive(budget, n))
			return -ENOSPC;
		memset(wr, 0, n * sizeof(wr[0]));
		for (uint32_t i = 0; i + 1 < n; i++)
			wr[i].next = &wr[i + 1];
		if (ibv_post_srq_recv(t->srq[rail], wr, &bad)) {
			/* The device accepted the WRs before `bad`. */
			uint32_t taken = (uint32_t)(bad - wr);

			mpib_budget_received(budget, n - taken);
			t->srq_posted[rail] += taken;
			return -EIO;
		}
		t->srq_posted[rail] += n;
	}
	return 0;
}

int mpib_srq_turn(struct mpib_shard *s)
{
	struct mpib_tenant *t;
	int filled = 0;

	s->srq_short = false;
	TAILQ_FOREACH(t, &s->tenants, link)
	{
		for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
			if (t->srq_posted[r] >= mpib_srq_low(t, r) ||
			    !t->srq[r])
				continue;
			if (mpib_srq_fill(t, r) < 0) {
				s->srq_short = true;
				continue;
			}
			s->rail[r].n.srq_refills++;
			filled++;
		}
	}
	return filled;
}

void mpib_srq_arm(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_shard *s = t->shard;
	struct ibv_srq_attr attr = {
		.srq_limit = mpib_srq_least(&s->engine->cfg) / 2
	};
	int rc;

	rc = s->rail[rail].verbs->modify_srq(t->srq[rail], &attr,
					     IBV_SRQ_LIMIT);
	/* Not every device supports SRQ limits. Without them mpib_srq_turn() is
	 * enough. */
	if (rc < 0)
		mpib_debug("rail %s: no SRQ limit: %s",
			   mpib_rail_label(s, rail), strerror(-rc));
}

/*
 * Ports at the start of the engine. If a port is down, its rail is treated as
 * lost ("away"), as if its device had failed (rail.h). The next proxy that
 * starts while the port is up uses the rail again. So if a node's ports are not
 * up yet after booting, the node still counts as a node with all its rails. A
 * device that does not answer is treated like a device whose port is down, but
 * the shard may have no context for it. Control thread, before the shards run.
 */

bool mpib_rail_silent(struct mpib_shard *s, unsigned r, int rc)
{
	if (rc != -EIO)
		return false;
	s->rail[r].port.state = IBV_PORT_NOP;
	return true;
}

/* For a device that never answered, fill in where the rail is and the fields
 * that every lane needs. */
static void down_assume(struct mpib_shard *s)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		struct mpib_port_info *port = &s->rail[r].port;
		const struct mpib_rail *other =
			&s->rail[s->engine->cfg.rails - 1 - r];

		if (s->rail[r].ctx)
			continue;
		if (mpib_rail_spec(s, r)->provider == MPIB_PROVIDER_RDMA)
			mpib_rdma_place(mpib_rail_spec(s, r), port);
		port->mtu = other->ctx ? other->port.mtu : IBV_MTU_1024;
		port->max_msg_sz =
			other->ctx ? other->port.max_msg_sz : MPIB_MSG_LEAST;
		port->link_layer = other->ctx ? other->port.link_layer
					      : IBV_LINK_LAYER_ETHERNET;
	}
}

int mpib_rails_open(struct mpib_shard *s, char *why, size_t why_len)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		int rc = open_rail(&s->rail[r], mpib_rail_spec(s, r), 65536,
				   why, why_len);

		if (rc < 0 && !mpib_rail_silent(s, r, rc)) {
			while (r-- > 0)
				mpib_rail_close(&s->rail[r]);
			return rc;
		}
	}
	*why = '\0';
	down_assume(s);
	return 0;
}

static void down_tell(const struct mpib_shard *s, unsigned r)
{
	struct mpib_event_about about = { .rails = 1u
						   << mpib_rail_number(s, r) };

	/* Report once per device: all shards of a device have the same port. */
	if (s->index % s->engine->cfg.shards)
		return;
	if (s->rail[r].port.state == IBV_PORT_NOP)
		mpib_event(MPIB_LOG_WARN, "rail_down", &about,
			   "rail %s (%s): the device does not answer; the rail "
			   "is not used until it does (its firmware may hang: "
			   "see dmesg)",
			   mpib_rail_label(s, r), mpib_rail_spec(s, r)->name);
	else
		mpib_event(
			MPIB_LOG_WARN, "rail_down", &about,
			"rail %s (%s): the port is down; the rail is not used "
			"until the port comes up (check cable and switch; "
			"RoCE: ip link set up; InfiniBand: is a subnet manager "
			"running?)",
			mpib_rail_label(s, r), mpib_rail_spec(s, r)->name);
}

static void down_settle(struct mpib_shard *s, unsigned r)
{
	struct mpib_rail *rail = &s->rail[r];

	rail->up = rail->port.state == IBV_PORT_ACTIVE;
	rail->dead = rail->lost = !rail->up;
	s->engine->rail_up[mpib_rail_number(s, r)] = rail->up;
	if (rail->up)
		return;
	/* Stop polling the channel: the shard never reads the events of a rail
	 * that is away. */
	if (rail->ctx)
		epoll_ctl(s->epfd, EPOLL_CTL_DEL, rail->channel->fd, NULL);
	down_tell(s, r);
}

/* If a port or a device changed its state while the shards opened it, mark the
 * rail as away for all shards, because clients of the device can be on any
 * shard. */
static void down_agree(struct mpib_shard *s, unsigned r)
{
	const struct mpib_shard *first = s - s->index % s->engine->cfg.shards;
	uint8_t state = IBV_PORT_ACTIVE;

	for (unsigned i = 0; i < s->engine->cfg.shards; i++) {
		if (first[i].rail[r].port.state != IBV_PORT_ACTIVE)
			state = first[i].rail[r].port.state;
	}
	s->rail[r].port.state = state;
}

void mpib_engine_settle_ports(struct mpib_engine *e)
{
	for (unsigned i = 0; i < e->shards; i++) {
		struct mpib_shard *s = &e->shard[i];

		for (unsigned r = 0; r < e->cfg.rails; r++) {
			down_agree(s, r);
			down_settle(s, r);
		}
	}
}

/* The rails that the shard or the peer has lost: as a bit mask, or as text.
 * Control thread. */

uint8_t mpib_shard_absent(const struct mpib_shard *s)
{
	uint8_t away = 0;

	for (unsigned r = 0; r < s->engine->cfg.rails; r++)
		away |= (uint8_t)(s->rail[r].dead << r);
	return away;
}

const char *mpib_absent_say(const struct mpib_shard *s, uint8_t ours,
			    uint8_t theirs, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned r = 0; r < MPIB_RAILS && at < len; r++) {
		const char *and = at ? " and " : "";

		if (ours >> r & 1)
			at += (size_t)snprintf(buf + at, len - at, "%s%s (%s)",
					       and, mpib_rail_label(s, r),
					       mpib_rail_spec(s, r)->name);
		else if (theirs >> r & 1)
			at += (size_t)snprintf(buf + at, len - at,
					       "%s%s at the other end", and,
					       mpib_rail_label(s, r));
	}
	return buf;
}

int mpib_rail_made(struct mpib_shard *s, unsigned rail, const char *call,
		   int rc)
{
	if (rc < 0 && mpib_rail_is_gone(s, rail, rc))
		return mpib_shard_some_rail(s);
	return mpib_last_error(s, rail, call, rc);
}

int mpib_shard_some_rail(const struct mpib_shard *s)
{
	struct mpib_engine *e = s->engine;
	uint8_t away = mpib_shard_absent(s);
	char rails[160];

	if (away != (1u << e->cfg.rails) - 1)
		return 0;
	return mpib_last_error_set(
		e, -ENETDOWN,
		"no rail is left, the device failed, was removed, or its port "
		"was down when mpib-proxy started: %s (mpibctl rails; it is "
		"opened again once it works)",
		mpib_absent_say(s, away, 0, rails, sizeof(rails)));
}
