/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached client processes and the memory regions that they registered. The
 * control thread makes the verbs calls. Mailbox messages tell the shard thread
 * about clients and regions.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/conn/conn.h"
#include "engine/rail/rail.h"

static void client_on_open(struct mpib_msg *msg)
{
	struct engine_client *a = container_of(msg, struct engine_client, msg);
	struct engine_client_list *list = &a->shard->clients;
	struct engine_client *behind;

	/* Keep the list sorted by id, because a turn starts after the client at
	 * which the last turn stopped (see submit.c). Clients are not added in
	 * the order of their ids. */
	TAILQ_FOREACH(behind, list, link)
	{
		if (behind->id > a->id)
			break;
	}
	if (behind)
		TAILQ_INSERT_BEFORE(behind, a, link);
	else
		TAILQ_INSERT_TAIL(list, a, link);
}

int engine_client_open(struct mpib_tenant *tenant, uint32_t id,
		       struct mpib_submit *submit, struct mpib_reply *reply,
		       int bell, struct engine_client **client)
{
	struct engine_client *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	a->shard = tenant->shard;
	a->bell = bell;
	TAILQ_INIT(&a->timed);
	rc = bell >= 0 ? mpib_shard_watch_bell(a->shard, bell) : 0;
	if (rc < 0) {
		free(a);
		return rc;
	}
	mpib_drr_init(&a->drr, &tenant->drr);
	a->tenant = tenant;
	mpib_tenant_hold(tenant);
	a->id = id;
	a->submit = submit;
	a->reply = reply;
	a->shard->clients_made++;
	mpib_mailbox_send(&a->shard->mailbox, &a->msg, client_on_open);
	*client = a;
	return 0;
}

void engine_client_qos(struct engine_client *client, uint32_t weight,
		       uint64_t rate)
{
	mpib_drr_set(&client->drr, weight, rate);
}

uint32_t engine_client_id(const struct engine_client *client)
{
	return client->id;
}

static void client_on_close(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct engine_client *a = call->what;

	TAILQ_REMOVE(&a->shard->clients, a, link);
	mpib_call_done(a->shard, call, 0);
}

/* Sum up the shard's counters. The shard no longer uses the client. */
static void client_sum(const struct engine_client *a,
		       struct engine_client_moved *sum)
{
	*sum = (struct engine_client_moved){ .messages = a->closed_messages,
					     .stall_ns = a->closed_stall_ns };
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		sum->tx_bytes += a->closed[r].tx_bytes;
		sum->rx_bytes += a->closed[r].rx_bytes;
		sum->replayed_bytes += a->closed[r].replayed_bytes;
	}
}

static void client_closed(struct mpib_call *call)
{
	struct engine_client *a = call->what;

	if (a->moved)
		client_sum(a, a->moved);
	a->shard->clients_made--;
	if (a->bell >= 0)
		mpib_shard_unwatch_bell(a->shard, a->bell);
	engine_client_free(a);
}

void engine_client_close(struct engine_client *client,
			 struct engine_client_moved *moved, mpib_done_fn *done,
			 void *arg)
{
	struct mpib_call *call = mpib_call_new(client, done, arg);

	client->moved = moved;
	call->after = client_closed;
	mpib_mailbox_send(&client->shard->mailbox, &call->msg, client_on_close);
}

static void dereg_all(struct mpib_mr *mr)
{
	struct mpib_shard *s = mr->client->shard;

	for (unsigned r = 0; r < MPIB_RAILS && !mr->revoked; r++) {
		if (mr->mr[r])
			s->rail[r].verbs->dereg_mr(mr->mr[r]);
	}
}

static void client_dereg(struct mpib_mr *mr)
{
	dereg_all(mr);
	free(mr);
}

bool mpib_mr_may_revoke(const struct engine_client *client)
{
	const struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &client->shard->engine->lanes, made_link)
	{
		if (lane->tenant == client->tenant && !lane->failover)
			return false;
	}
	return true;
}

/* Deregister the region at every device. The shard still uses the keys, which
 * are now invalid. Leave mr->mr[] set, because the shard checks only that. */
void mpib_mr_revoke(struct engine_client *client, uint32_t handle)
{
	struct mpib_mr *mr = client->mr_made[handle];

	dereg_all(mr);
	mr->revoked = true;
}

void engine_client_free(struct engine_client *a)
{
	for (unsigned h = 0; h < MPIB_MRS_MAX; h++) {
		struct mpib_mr *mr = a->mr_made[h];

		if (!mr)
			continue;
		free(mr->del);
		client_dereg(mr);
	}
	mpib_tenant_put(a->tenant);
	free(a);
}

static int access_to(const struct mpib_mr_attr *attr,
		     const struct mpib_verbs *verbs)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_RELAXED_ORDERING;

	/* The loop-back QPs read the region. No other QP allows reads. */
	if (attr->dmabuf_fd >= 0)
		access |= IBV_ACCESS_REMOTE_READ;
	/* Use on-demand registration if all pages are present: an ordinary
	 * registration would walk every page again, which takes 0.1 s per
	 * GiB. */
	if (attr->present && verbs->on_demand)
		access |= IBV_ACCESS_ON_DEMAND;
	if (attr->any_order && verbs->any_order)
		access |= MPIB_ACCESS_ANY_ORDER;
	return access;
}

static int region_too_long(const struct mpib_shard *s, unsigned r, size_t len)
{
	return mpib_last_error_set(
		s->engine, -EINVAL,
		"%s: %zu bytes are more than the device's max_mr_size = %llu "
		"(register less at a time)",
		mpib_rail_spec(s, r)->name, len,
		(unsigned long long)s->rail[r].port.dev.max_mr_size);
}

static int client_reg(struct mpib_mr *mr, const struct mpib_mr_attr *attr)
{
	struct engine_client *a = mr->client;
	int rc = mpib_shard_some_rail(a->shard);

	if (rc < 0)
		return rc;
	for (unsigned r = 0; r < a->shard->engine->cfg.rails; r++) {
		struct mpib_rail *rail = &a->shard->rail[r];
		struct ibv_pd *pd = a->tenant->pd[r];
		int access = access_to(attr, rail->verbs);
		const char *call = attr->dmabuf_fd >= 0 ? "ibv_reg_dmabuf_mr"
							: "ibv_reg_mr";

		if (rail->dead)
			continue;
		if (attr->len > rail->port.dev.max_mr_size)
			return region_too_long(a->shard, r, attr->len);
		if (attr->dmabuf_fd >= 0)
			rc = rail->verbs->reg_dmabuf_mr(
				pd, attr->dmabuf_offset, attr->len, mr->addr,
				attr->dmabuf_fd, access, &mr->mr[r]);
		else
			rc = rail->verbs->reg_mr(pd, attr->addr, attr->len,
						 mr->addr, access, &mr->mr[r]);
		rc = mpib_rail_made(a->shard, r, call, rc);
		if (rc < 0)
			return rc;
		mr->lkey[r] = mr->mr[r] ? mr->mr[r]->lkey : 0;
		mr->rkey[r] = mr->mr[r] ? mr->mr[r]->rkey : 0;
	}
	return 0;
}

static void on_mr_add(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_mr *mr = call->what;

	mr->client->mr[mr->handle] = mr;
	mpib_call_done(mr->client->shard, call, 0);
}

/* Register the region and store it in mr_made. Do not tell the shard yet. */
static int mr_make(struct engine_client *a, const struct mpib_mr_attr *attr,
		   uint32_t handle, struct mpib_mr **made)
{
	struct mpib_mr *mr = calloc(1, sizeof(*mr));
	int rc;

	if (!mr)
		return -ENOMEM;
	mr->client = a;
	mr->handle = handle;
	/* The iova of a dma-buf must have the same offset within a page as
	 * dmabuf_offset, see ibv_reg_dmabuf_mr(3). */
	mr->addr =
		attr->dmabuf_fd >= 0
			? attr->dmabuf_offset % (uint64_t)sysconf(_SC_PAGESIZE)
			: (uint64_t)(uintptr_t)attr->addr;
	mr->len = attr->len;
	mr->device = attr->dmabuf_fd >= 0;
	rc = mr->device ? mpib_loopback_make(a->tenant) : 0;
	if (rc == 0)
		rc = client_reg(mr, attr);
	if (rc < 0) {
		client_dereg(mr);
		return rc;
	}
	a->mr_made[handle] = *made = mr;
	return 0;
}

/* Return the next free handle after the last one assigned; 0: none. A freed
 * handle is reused as late as possible, because descriptors in a ring may still
 * contain it. */
static uint32_t free_handle(const struct engine_client *a)
{
	for (uint32_t i = 1; i <= MPIB_MRS_MAX; i++) {
		uint32_t h = (a->mr_given + i) % MPIB_MRS_MAX;

		if (h && !a->mr_made[h])
			return h;
	}
	return 0;
}

int mpib_mr_add(struct engine_client *client, const struct mpib_mr_attr *attr,
		uint32_t *handle, mpib_done_fn *done, void *arg)
{
	struct mpib_call *call;
	struct mpib_mr *mr;
	uint32_t h = free_handle(client);
	int rc;

	if (!h)
		return mpib_last_error_set(
			client->shard->engine, -EDQUOT,
			"the client has %u regions (deregister some)",
			MPIB_MRS_MAX - 1);
	rc = mr_make(client, attr, h, &mr);
	if (rc < 0)
		return rc;
	*handle = client->mr_given = h;
	call = mpib_call_new(mr, done, arg);
	mpib_mailbox_send(&client->shard->mailbox, &call->msg, on_mr_add);
	return 0;
}

void mpib_mr_unused(struct mpib_mr *mr)
{
	struct mpib_call *del = mr->del;

	mr->del = NULL;
	mpib_call_done(mr->client->shard, del, 0);
}

/* Break connections that use the region, until only the caller has a
 * reference. */
static void break_users(struct mpib_mr *mr)
{
	struct engine_client *a = mr->client;

	for (unsigned i = 0; i < MPIB_INDEXES_MAX && mr->refs > 1; i++) {
		struct engine_conn *f = a->conn[i];

		if (f && (f->is_sender ? mpib_sender_uses(f, mr)
				       : mpib_receiver_uses(f, mr)))
			engine_conn_break(f, -ECANCELED,
					  "its memory was deregistered");
	}
}

static void on_mr_del(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_mr *mr = call->what;

	mr->client->mr[mr->handle] = NULL;
	/* keep the region while break_users() drops references */
	mpib_mr_ref(mr);
	mr->del = call;
	break_users(mr);
	mpib_mr_unref(mr);
}

static void client_deleted(struct mpib_call *call)
{
	struct mpib_mr *mr = call->what;

	mr->client->mr_made[mr->handle] = NULL;
	client_dereg(mr);
}

int mpib_mr_del(struct engine_client *client, uint32_t handle,
		mpib_done_fn *done, void *arg)
{
	struct mpib_call *call;
	struct mpib_mr *mr;

	mr = handle < MPIB_MRS_MAX ? client->mr_made[handle] : NULL;
	if (!mr || mr->dead)
		return -ENOENT;
	mr->dead = true;
	call = mpib_call_new(mr, done, arg);
	call->after = client_deleted;
	mpib_mailbox_send(&client->shard->mailbox, &call->msg, on_mr_del);
	return 0;
}
