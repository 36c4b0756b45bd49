/* SPDX-License-Identifier: Apache-2.0 */
#include "handover/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/handover/handover.h"

void mpib_sessions_pause(struct mpib_sessions *all, bool on)
{
	uint32_t events = on ? 0 : EPOLLIN;
	struct mpib_session *s;

	/* Also where accept() had no descriptor, and was to look again. */
	mpib_timer_disarm(all->loop, &all->pause);
	if (all->watch.added)
		mpib_loop_mod(all->loop, &all->watch, events);
	else if (!on)
		mpib_sessions_listen(all, all->fd);
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->sock_watch.added)
			mpib_loop_mod(all->loop, &s->sock_watch, events);
	}
}

static bool settled(const struct mpib_session *s)
{
	const struct mpib_session_region *r;

	if (s->state > MPIB_SESSION_LIVE || s->adding > 0)
		return false;
	LIST_FOREACH(r, &s->regions, link)
	{
		if (r->state != MPIB_REGION_LIVE)
			return false;
	}
	return true;
}

int mpib_sessions_settled(const struct mpib_sessions *all, char *why,
			  size_t why_len)
{
	const struct mpib_session *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (settled(s))
			continue;
		snprintf(why, why_len,
			 "client %u is leaving, or has memory registered or "
			 "deregistered",
			 s->id);
		return -EAGAIN;
	}
	return 0;
}

static void region(struct mpib_parcel *p, struct mpib_session *s,
		   struct mpib_session_region *r)
{
	struct mpib_session_region x = { .fd = -1 };

	if (r)
		x = *r;
	mpib_parcel_mark(p, "region");
	mpib_parcel_u32(p, &x.handle);
	mpib_parcel_u64(p, &x.size);
	mpib_parcel_u64(p, &x.offset);
	mpib_parcel_bool(p, &x.pool);
	mpib_parcel_bool(p, &x.dmabuf);
	mpib_parcel_bool(p, &x.strict);
	mpib_parcel_fd(p, &x.fd);
	if (!p->packing && !p->failed && mpib_session_region_restore(s, &x) < 0)
		mpib_parcel_fail(p, "region %u of client %u: %s", x.handle,
				 s->id, strerror(errno));
}

static void regions(struct mpib_parcel *p, struct mpib_session *s)
{
	struct mpib_session_region *r = LIST_FIRST(&s->regions);
	uint32_t n = s->region_count;

	mpib_parcel_u32(p, &n);
	while (n-- > 0 && !p->failed) {
		region(p, s, p->packing ? r : NULL);
		r = p->packing ? LIST_NEXT(r, link) : NULL;
	}
}

static int attach(struct mpib_session *s)
{
	struct mpib_sessions *all = s->all;
	int rc;

	if (s->owner.shard >= mpib_engine_shards(all->engine))
		return -EINVAL;
	rc = mpib_session_attach(s, s->owner.shard);
	if (rc < 0)
		return rc;
	all->ledger.mapped += s->submit.size + s->reply.size;
	return 0;
}

static void segment(struct mpib_parcel *p, struct mpib_memseg *seg, size_t size,
		    bool read_only)
{
	int fd = read_only ? seg->own : seg->fd;

	mpib_parcel_fd(p, &fd);
	if (!p->packing && !p->failed &&
	    mpib_memseg_adopt(seg, fd, size, read_only) < 0)
		mpib_parcel_fail(p, "a segment cannot be mapped: %s",
				 strerror(errno));
}

static void attachment(struct mpib_parcel *p, struct mpib_session *s)
{
	uint32_t shard = s->owner.shard;

	mpib_parcel_u32(p, &shard);
	mpib_parcel_u32(p, &s->listeners);
	mpib_parcel_u64(p, &s->job);
	mpib_parcel_text(p, s->name, sizeof(s->name));
	segment(p, &s->submit, sizeof(struct mpib_submit), false);
	segment(p, &s->reply, sizeof(struct mpib_reply), true);
	if (p->failed)
		return;
	if (!p->packing) {
		s->owner.shard = shard;
		if (attach(s) < 0) {
			mpib_parcel_fail(p, "client %u cannot be served",
					 s->id);
			return;
		}
	}
	regions(p, s);
}

static struct mpib_session *make(struct mpib_sessions *all, uint32_t uid)
{
	struct mpib_session *s = mpib_session_new(all);

	if (!s)
		return NULL;
	s->uid = uid;
	if (mpib_quota_begin(s) < 0) {
		free(s);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&all->list, s, link);
	all->ledger.sessions++;
	return s;
}

static void session(struct mpib_parcel *p, struct mpib_sessions *all,
		    struct mpib_session *s)
{
	bool live = s && s->state == MPIB_SESSION_LIVE;
	uint32_t uid = s ? s->uid : 0;

	mpib_parcel_mark(p, "client");
	mpib_parcel_u32(p, &uid);
	mpib_parcel_bool(p, &live);
	if (!p->packing)
		s = p->failed ? NULL : make(all, uid);
	if (!s) {
		mpib_parcel_fail(p, "no memory for a client");
		return;
	}
	mpib_parcel_u32(p, &s->id);
	mpib_parcel_u32(p, &s->pid);
	mpib_parcel_u32(p, &s->gid);
	mpib_parcel_fd(p, &s->sock);
	mpib_parcel_fd(p, &s->pidfd);
	if (live && !p->failed)
		attachment(p, s);
}

void mpib_sessions_parcel(struct mpib_parcel *p, struct mpib_sessions *all)
{
	struct mpib_session *s = p->packing ? TAILQ_FIRST(&all->list) : NULL;
	uint32_t n = all->ledger.sessions;

	mpib_parcel_mark(p, "clients");
	mpib_parcel_u32(p, &all->next_id);
	mpib_parcel_u64(p, &all->accepted);
	mpib_parcel_u64(p, &all->refused);
	mpib_parcel_u64(p, &all->rejected);
	mpib_parcel_u32(p, &n);
	while (n-- > 0 && !p->failed) {
		session(p, all, s);
		s = s && p->packing ? TAILQ_NEXT(s, link) : NULL;
	}
	if (p->packing || p->failed)
		return;
	mpib_shares_apply(all);
	/* The shards get to know the attachments. */
	mpib_engine_halt(all->engine);
}

struct mpib_owner *mpib_sessions_owner(void *arg, uint32_t client)
{
	struct mpib_session *s = mpib_sessions_find(arg, client);

	return s ? &s->owner : NULL;
}

int mpib_sessions_go_on(struct mpib_sessions *all, int fd)
{
	int rc = mpib_sessions_listen(all, fd);
	struct mpib_session *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (rc == 0)
			rc = mpib_session_watch(s);
	}
	return rc;
}
