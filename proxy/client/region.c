/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a client's regions: made and counted, registered with the rails,
 * fenced and freed. Also the pools that the proxy makes for clients.
 */
#include <errno.h>
#include <inttypes.h>
#include <mpib/control.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/thread.h"
#include "client/fill.h"
#include "client/region.h"

int mpib_region_remember(struct proxy_client *s, struct proxy_client_region *r)
{
	if (r->handle >= s->handles) {
		uint32_t n = r->handle * 2 + 16;
		struct proxy_client_region **grown;

		grown = reallocarray(s->by_handle, n, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + s->handles, 0,
		       (n - s->handles) * sizeof(*grown));
		s->by_handle = grown;
		s->handles = n;
	}
	s->by_handle[r->handle] = r;
	return 0;
}

/* Bytes from which on freeing them is not the control thread's: 5 ms. */
#define LARGE ((size_t)32 << 20)

void mpib_region_let_go(const struct mpib_region_memory *m)
{
	if (m->map && m->fd >= 0 && m->len >= LARGE) {
		mpib_unmap_of(m->uid, m->map, m->len, m->fd);
		return;
	}
	if (m->map)
		munmap(m->map, m->len);
	if (m->fd >= 0)
		close(m->fd);
}

void mpib_region_free(struct proxy_client_region *r)
{
	struct proxy_client *s = r->client;
	struct mpib_usage *usage = &s->all->usage;
	struct mpib_region_memory m = { s->uid, r->map, r->map_len, r->fd };

	if (r->state == MPIB_REGION_FILLING)
		mpib_fill_end(r);
	if (r->stepping)
		s->all->left = m;
	else
		mpib_region_let_go(&m);
	if (r->handle < s->handles && s->by_handle[r->handle] == r)
		s->by_handle[r->handle] = NULL;
	if (r->map)
		mpib_sum_take(&usage->mapped, r->map_len);
	if (r->fd >= 0)
		mpib_sum_less(&s->region_fds);
	LIST_REMOVE(r, link);
	mpib_sum_less(&s->region_count);
	mpib_sum_take(&s->registered, r->size);
	if (r->pool)
		mpib_sum_take(&s->pooled, r->size);
	if (r->dmabuf)
		mpib_sum_take(&s->of_devices, r->size);
	mpib_sum_less(&usage->regions);
	mpib_sum_take(&usage->registered, r->size);
	free(r);
}

struct proxy_client_region *mpib_region_make(struct proxy_client *s,
					     uint64_t size)
{
	struct proxy_client_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->client = s;
	r->size = size;
	r->fd = -1;
	LIST_INSERT_HEAD(&s->regions, r, link);
	s->region_count++;
	s->registered += size;
	s->all->usage.regions++;
	s->all->usage.registered += size;
	return r;
}

struct proxy_client_region *mpib_region_new(struct proxy_client *s,
					    const struct mpib_message *m,
					    uint64_t size)
{
	struct proxy_client_region *r = mpib_region_make(s, size);

	if (r)
		r->ask = m->h;
	else
		proxy_client_refuse(s, &m->h, -ENOMEM,
				    "the proxy is out of memory");
	return r;
}

bool mpib_region_allowed(struct proxy_client *s,
			 const struct mpib_ctl_header *ask, uint64_t size,
			 enum mpib_region_kind kind)
{
	const struct proxy_clients *all = s->all;

	if (size == 0) {
		proxy_client_refuse(s, ask, -EINVAL,
				    "a region of 0 bytes cannot be registered");
		return false;
	}
	if (size > all->max_memory || s->registered > all->max_memory - size) {
		proxy_client_refuse(s, ask, -EDQUOT,
				    "%" PRIu64 " bytes more than the %" PRIu64
				    " registered pass limit.memory = %" PRIu64
				    " (raise it)",
				    size, s->registered, all->max_memory);
		return false;
	}
	if (s->region_count >= all->cfg->max_regions) {
		proxy_client_refuse(s, ask, -EDQUOT,
				    "%u regions are registered already "
				    "(deregister some, or raise limit.regions, "
				    "up to 4095)",
				    s->region_count);
		return false;
	}
	return proxy_client_may(s, ask, MPIB_QUOTA_REGIONS, 1) &&
	       (kind == MPIB_REGION_DMABUF ||
		proxy_client_may(s, ask, MPIB_QUOTA_MEMORY, size)) &&
	       (kind != MPIB_REGION_POOL ||
		proxy_client_may(s, ask, MPIB_QUOTA_POOL, size));
}

static void on_added(void *arg, int status)
{
	struct proxy_client_region *r = arg;
	struct proxy_client *s = r->client;
	struct mpib_ctl_region answer = {
		.h = { .type = r->ask.type,
		       .id = r->ask.id,
		       .len = sizeof(answer) },
		.size = r->size,
		.mr = r->handle,
	};

	(void)status; /* 0 */
	s->adding--;
	r->state = MPIB_REGION_LIVE;
	if (s->state > PROXY_CLIENT_LIVE)
		proxy_client_advance(s);
	else
		proxy_client_send(s, &answer.h, &r->fd, r->pool);
}

void mpib_region_of_device(struct proxy_client_region *r)
{
	r->dmabuf = true;
	r->client->of_devices += r->size;
}

void mpib_region_of_pool(struct proxy_client_region *r)
{
	r->pool = true;
	r->client->pooled += r->size;
}

void mpib_region_mapped(struct proxy_client_region *r, void *map, size_t len)
{
	r->map = map;
	r->map_len = len;
	r->client->all->usage.mapped += len;
}

void mpib_region_keep(struct proxy_client_region *r, int fd)
{
	r->fd = fd;
	r->client->region_fds++;
}

void mpib_region_add(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr)
{
	struct proxy_client *s = r->client;
	struct mpib_ctl_header ask = r->ask;
	uint64_t size = r->size;
	int rc = mpib_mr_add(s->peer_client.engine_client, attr, &r->handle,
			     on_added, r);

	if (rc < 0) {
		mpib_region_free(r);
		proxy_client_refuse(
			s, &ask, rc,
			"the rails cannot register %" PRIu64 " bytes: %s", size,
			mpib_engine_last_error(s->all->engine, rc));
		return;
	}
	s->adding++;
	r->state = MPIB_REGION_ADDING;
	if (mpib_region_remember(s, r) < 0)
		proxy_client_drop(s, "the proxy is out of memory");
}

void proxy_client_pool(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_pool *ask = (const void *)m->bytes;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct proxy_client_region *r;
	struct mpib_memseg seg;
	uint64_t size = ask->size;
	int rc;

	/* What is more than that is refused as it is. */
	if (size <= UINT64_MAX - page)
		size = (size + page - 1) / page * page;
	if (!mpib_region_allowed(s, &m->h, size, MPIB_REGION_POOL) ||
	    !proxy_client_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	r = mpib_region_new(s, m, size);
	if (!r)
		return;
	rc = s->all->cfg->huge_pages
		     ? mpib_memseg_create_huge(&seg, "mpib-pool", size)
		     : mpib_memseg_create(&seg, "mpib-pool", size, false);
	if (rc < 0) {
		mpib_region_free(r);
		proxy_client_refuse(s, &m->h, rc,
				    "no memory segment of %" PRIu64
				    " bytes: %s (see mpib-proxy's limits: "
				    "LimitNOFILE, LimitAS, LimitFSIZE)",
				    size, strerror(-rc));
		return;
	}
	mpib_region_mapped(r, seg.addr, seg.size);
	mpib_region_keep(r, seg.fd);
	mpib_region_of_pool(r);
	mpib_numa_prefer(
		seg.addr, seg.size,
		mpib_engine_node(s->all->engine, s->peer_client.shard));
	mpib_fill_begin(r, &(struct mpib_mr_attr){ .addr = seg.addr,
						   .len = size,
						   .dmabuf_fd = -1,
						   .any_order = true });
}

static void on_deleted(void *arg, int status)
{
	struct proxy_client_region *r = arg;
	struct proxy_client *s = r->client;
	struct mpib_ctl_header ask = r->ask;
	uint32_t handle = r->handle;

	(void)status;
	/* Free the region before answering: the client's next request must find
	 * its quota released. */
	mpib_region_free(r);
	if (s->state > PROXY_CLIENT_LIVE)
		proxy_client_advance(s);
	else if (ask.type == MPIB_CTL_DEREG)
		proxy_client_ok(s, &ask, handle);
}

void proxy_client_dereg(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	struct proxy_client_region *r;
	int rc;

	r = ask->id < s->handles ? s->by_handle[ask->id] : NULL;
	if (!r || r->state != MPIB_REGION_LIVE) {
		proxy_client_refuse(s, &m->h, -ENOENT,
				    "this client has no region %u", ask->id);
		return;
	}
	rc = mpib_mr_del(s->peer_client.engine_client, r->handle, on_deleted,
			 r);
	if (rc < 0) {
		proxy_client_refuse(s, &m->h, rc, "region %u stays: %s",
				    ask->id, strerror(-rc));
		return;
	}
	r->ask = m->h;
	r->state = MPIB_REGION_DELETING;
}

void proxy_client_stop_filling(struct proxy_client *s)
{
	while (!TAILQ_EMPTY(&s->filling))
		mpib_region_free(TAILQ_FIRST(&s->filling));
}

void proxy_client_drop_regions(struct proxy_client *s)
{
	struct proxy_client_region *r, *next;

	for (r = LIST_FIRST(&s->regions); r; r = next) {
		int rc;

		next = LIST_NEXT(r, link);
		if (r->state != MPIB_REGION_LIVE)
			continue;
		r->state = MPIB_REGION_DELETING;
		rc = mpib_mr_del(s->peer_client.engine_client, r->handle,
				 on_deleted, r);
		if (rc < 0)
			mpib_err("client %u: region %u cannot be fenced: %s",
				 s->id, r->handle, strerror(-rc));
	}
}

void proxy_client_let_go(void *arg)
{
	struct proxy_client *s = arg;
	struct proxy_client_region *r;

	if (!mpib_mr_may_revoke(s->peer_client.engine_client))
		return;
	LIST_FOREACH(r, &s->regions, link)
	{
		if (!r->dmabuf || r->fd < 0)
			continue;
		mpib_mr_revoke(s->peer_client.engine_client, r->handle);
		close(r->fd);
		r->fd = -1;
		mpib_sum_less(&s->region_fds);
	}
}

void proxy_client_free_regions(struct proxy_client *s)
{
	while (!LIST_EMPTY(&s->regions))
		mpib_region_free(LIST_FIRST(&s->regions));
}
