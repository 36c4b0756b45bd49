/* SPDX-License-Identifier: Apache-2.0 */
/* Packing and unpacking the attached clients; pausing them meanwhile. */
#include "handover/clients.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fill.h"
#include "engine/handover/handover.h"

void proxy_clients_pause(struct proxy_clients *all, bool on)
{
	struct proxy_client *s;

	if (on)
		mpib_acceptor_pause(&all->acceptor, UINT64_MAX);
	else
		mpib_acceptor_resume(&all->acceptor);
	TAILQ_FOREACH(s, &all->list, link)
	proxy_client_pause(s, on);
}

static bool clients_settled(const struct proxy_client *s)
{
	const struct proxy_client_region *r;

	if (s->state > PROXY_CLIENT_LIVE || s->adding > 0)
		return false;
	LIST_FOREACH(r, &s->regions, link)
	{
		if (r->state != MPIB_REGION_LIVE)
			return false;
	}
	return true;
}

int proxy_clients_quiescent(const struct proxy_clients *all, char *why,
			    size_t why_len)
{
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (clients_settled(s))
			continue;
		snprintf(why, why_len,
			 "client %u is leaving, or has memory registered or "
			 "deregistered",
			 s->id);
		return -EAGAIN;
	}
	return 0;
}

void proxy_clients_press(struct proxy_clients *all)
{
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		while (s->state == PROXY_CLIENT_LIVE &&
		       !TAILQ_EMPTY(&s->filling))
			mpib_fill_cancel(TAILQ_FIRST(&s->filling));
	}
}

static void clients_region(struct mpib_serial *p, struct proxy_client *s,
			   struct proxy_client_region *r)
{
	struct proxy_client_region x = { .fd = -1 };

	if (r)
		x = *r;
	mpib_serial_mark(p, "region");
	mpib_serial_u32(p, &x.handle);
	mpib_serial_u64(p, &x.size);
	mpib_serial_u64(p, &x.offset);
	mpib_serial_bool(p, &x.pool);
	mpib_serial_bool(p, &x.dmabuf);
	mpib_serial_fd(p, &x.fd);
	if (!p->packing && !p->failed && proxy_client_region_restore(s, &x) < 0)
		mpib_serial_fail(p, "region %u of client %u: %s", x.handle,
				 s->id, strerror(errno));
}

static void clients_regions(struct mpib_serial *p, struct proxy_client *s)
{
	struct proxy_client_region *r = LIST_FIRST(&s->regions);
	uint32_t n = s->region_count;

	mpib_serial_u32(p, &n);
	while (n-- > 0 && !p->failed) {
		clients_region(p, s, p->packing ? r : NULL);
		r = p->packing ? LIST_NEXT(r, link) : NULL;
	}
}

static int clients_attach(struct proxy_client *s)
{
	proxy_client_count_segments(s);
	if (s->peer_client.shard >= mpib_engine_shards(s->all->engine))
		return -EINVAL;
	return proxy_client_attach(s, s->peer_client.shard);
}

static void clients_segment(struct mpib_serial *p, struct mpib_memseg *seg,
			    size_t size, bool read_only)
{
	int fd = read_only ? seg->own : seg->fd;

	mpib_serial_fd(p, &fd);
	if (!p->packing && !p->failed &&
	    mpib_memseg_adopt(seg, fd, size, read_only) < 0)
		mpib_serial_fail(p, "a segment cannot be mapped: %s",
				 strerror(errno));
}

static void client_serialize(struct mpib_serial *p, struct proxy_client *s)
{
	uint32_t shard = s->peer_client.shard;

	mpib_serial_u32(p, &shard);
	mpib_serial_u32(p, &s->listeners);
	mpib_serial_u64(p, &s->job);
	mpib_serial_text(p, s->name, sizeof(s->name));
	mpib_serial_text(p, s->label, sizeof(s->label));
	mpib_serial_count(p, &s->job_at, MPIB_JOBS);
	clients_segment(p, &s->submit, sizeof(struct mpib_submit), false);
	clients_segment(p, &s->reply, sizeof(struct mpib_reply), true);
	mpib_serial_fd(p, &s->doorbell);
	if (p->failed)
		return;
	if (!p->packing) {
		s->peer_client.shard = shard;
		if (s->job_at)
			s->all->jobs.job[s->job_at - 1].attached++;
		if (clients_attach(s) < 0) {
			mpib_serial_fail(p, "client %u cannot be served",
					 s->id);
			return;
		}
	}
	mpib_mrs_serialize(p, s->peer_client.engine_client);
	clients_regions(p, s);
}

static struct proxy_client *clients_make(struct proxy_clients *all,
					 uint32_t uid)
{
	struct proxy_client *s = proxy_client_new(all);

	if (!s)
		return NULL;
	s->uid = uid;
	if (mpib_quota_begin(s) < 0) {
		free(s);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&all->list, s, link);
	all->usage.clients++;
	return s;
}

static void clients_client(struct mpib_serial *p, struct proxy_clients *all,
			   struct proxy_client *s)
{
	bool live = s && s->state == PROXY_CLIENT_LIVE;
	uint32_t uid = s ? s->uid : 0;

	mpib_serial_mark(p, "client");
	mpib_serial_u32(p, &uid);
	mpib_serial_bool(p, &live);
	if (!p->packing)
		s = p->failed ? NULL : clients_make(all, uid);
	if (!s) {
		mpib_serial_fail(p, "no memory for a client");
		return;
	}
	mpib_serial_u32(p, &s->id);
	mpib_serial_u32(p, &s->pid);
	mpib_serial_u32(p, &s->gid);
	mpib_serial_fd(p, &s->sock);
	mpib_serial_fd(p, &s->pidfd);
	if (!p->packing && !live)
		mpib_quota_silent(s, true);
	if (live && !p->failed)
		client_serialize(p, s);
}

void proxy_clients_serialize(struct mpib_serial *p, struct proxy_clients *all)
{
	struct proxy_client *s = p->packing ? TAILQ_FIRST(&all->list) : NULL;
	uint32_t n = all->usage.clients;

	mpib_serial_mark(p, "clients");
	mpib_serial_u32(p, &all->next_id);
	mpib_serial_u64(p, &all->accepted);
	mpib_serial_u64(p, &all->refused);
	mpib_serial_u64(p, &all->rejected);
	mpib_jobs_serialize(p, &all->jobs);
	mpib_serial_u32(p, &n);
	while (n-- > 0 && !p->failed) {
		clients_client(p, all, s);
		s = s && p->packing ? TAILQ_NEXT(s, link) : NULL;
	}
	if (p->packing || p->failed)
		return;
	mpib_shares_apply(all);
	/* Halting carries out what was queued for the shards, so that they know
	 * the clients. */
	mpib_engine_halt(all->engine);
}

struct peer_client *proxy_clients_owner(void *arg, uint32_t client)
{
	struct proxy_client *s = proxy_clients_find(arg, client);

	return s ? &s->peer_client : NULL;
}

int proxy_clients_go_on(struct proxy_clients *all, int fd)
{
	int rc = proxy_clients_listen(all, fd);
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (rc == 0)
			rc = proxy_client_watch(s);
		if (rc == 0 && s->unfit)
			proxy_client_drop(s, s->unfit);
	}
	return rc;
}
