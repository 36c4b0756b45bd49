/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one client per attached process, from accept to the
 * last of its memory. Control thread only.
 *
 * A client may say anything and die at any time. What it says is checked
 * before it is used; what it does not read is not kept for it. When its
 * process ends or it hangs up, its connections go first, then its regions are
 * fenced and dropped, then its segments: only then is its memory unmapped.
 */
#ifndef MPIB_PROXY_CLIENT_H
#define MPIB_PROXY_CLIENT_H

#include <mpib/segment.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "base/memseg.h"
#include "client/quota.h"
#include "config/config.h"
#include "engine/engine.h"
#include "ipc/message.h"
#include "peer/broker.h"

struct proxy_clients;
struct proxy_client;

enum mpib_region_state {
	MPIB_REGION_ADDING, /* the shard does not know it yet */
	MPIB_REGION_FILLING, /* nor do the rails: its pages are made first */
	MPIB_REGION_LIVE,
	MPIB_REGION_DELETING, /* fenced; its memory may still be written */
};

struct proxy_client_region {
	struct proxy_client *client;
	LIST_ENTRY(proxy_client_region) link;
	enum mpib_region_state state;
	uint32_t handle;
	struct mpib_ctl_header ask; /* what to answer; type 0: nobody asks */
	uint64_t size; /* bytes the usage counts */
	bool pool;
	void *map; /* our mapping, NULL for a dma-buf */
	size_t map_len;
	/* What is behind it, ours until it is deregistered: so that the memory
	 * stays what it is, and for a proxy that takes over. */
	int fd;
	uint64_t offset; /* of its first byte in there */
	bool dmabuf, strict;

	/* fill.c, while FILLING. */
	TAILQ_ENTRY(proxy_client_region) fill_link;
	struct mpib_mr_attr attr; /* for the rails, then */
	size_t filled; /* of its bytes */
};

enum proxy_client_state {
	PROXY_CLIENT_NEW, /* no HELLO yet */
	PROXY_CLIENT_LIVE,
	PROXY_CLIENT_CONNS, /* gone: the broker takes its connections down */
	PROXY_CLIENT_REGIONS, /* gone: its regions are being fenced */
	PROXY_CLIENT_CLOSING, /* gone: the shard forgets it */
};

struct proxy_client {
	struct proxy_clients *all;
	TAILQ_ENTRY(proxy_client) link;
	enum proxy_client_state state;
	uint32_t id;
	uint32_t pid; /* from the kernel; 0: not of our pid namespace */
	uid_t uid;
	gid_t gid;
	uint64_t job;
	char name[64]; /* printable */

	int sock, pidfd; /* -1 when closed or not to be had */
	struct mpib_io sock_watch, pid_watch;
	struct mpib_timer hello_timer;

	struct peer_client peer_client; /* shard, tenant, client */
	struct mpib_memseg submit, reply;

	LIST_HEAD(, proxy_client_region) regions;
	/* The next to be filled first; all's list has s while there are some. */
	TAILQ_HEAD(, proxy_client_region) filling;
	TAILQ_ENTRY(proxy_client) fill_link;
	struct proxy_client_region **by_handle;
	uint32_t handles; /* entries of by_handle */
	unsigned region_count, region_fds, adding;
	uint64_t registered, pooled; /* pooled is a part of registered */
	unsigned listeners;
	struct mpib_quota_user *user;
	struct mpib_share share, of_user; /* in force */
	bool share_said; /* by an operator, so rules do not count */
};

/* What is held for clients; all zero when nobody is attached. */
struct mpib_usage {
	uint32_t clients, attached, leaving, regions;
	uint64_t registered, mapped;
};

struct proxy_clients {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_config *cfg;
	uint64_t max_memory, max_pool;

	int fd;
	int spare; /* given up to tell a client that there is none; or -1 */
	struct mpib_io watch;
	struct mpib_timer pause; /* after accept() found no descriptor */
	TAILQ_HEAD(proxy_client_list, proxy_client) list;
	TAILQ_HEAD(, proxy_client) filling; /* whose turn it is first */
	struct mpib_timer fill; /* armed while there are any */
	struct mpib_quota_user *users; /* by uid */
	uint32_t next_id;
	uint32_t on_shard[MPIB_SHARDS_MAX];
	struct mpib_usage usage;
	uint64_t accepted, refused, rejected; /* clients, and bad messages */
};

/* Serve the listening socket fd, which stays the caller's; none yet where it is
 * -1. -errno. */
int proxy_clients_init(struct proxy_clients *all, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_config *cfg, int fd);
/* Take over limits that changed in the configuration. */
void proxy_clients_tune(struct proxy_clients *all);
/* Take no more, and hang up on everybody at once. */
void proxy_clients_stop(struct proxy_clients *all);
/* Free all, after mpib_engine_close(): nothing calls back any more. */
void proxy_clients_fini(struct proxy_clients *all);
/* The client of that id that attached, leaving or not; NULL. */
struct proxy_client *proxy_clients_known(const struct proxy_clients *all,
					 uint64_t id);
/* Unless it is leaving. */
struct proxy_client *proxy_clients_find(struct proxy_clients *all, uint64_t id);

/* Between the files of clients, and handover/. */

/* Serve the listening socket from now on. -errno. */
int proxy_clients_listen(struct proxy_clients *all, int fd);
/* A client of the shard from now on, counted as attached. -errno: what was made is
 * undone when the client is dropped. */
int proxy_client_attach(struct proxy_client *s, unsigned shard);
/* Listen to its socket, its process and, before its HELLO, the clock. */
int proxy_client_watch(struct proxy_client *s);
/* like with handle, size, offset, pool, dmabuf, strict and fd, which becomes
 * the region's: map and register it, its shard being halted. -1 and errno. */
int proxy_client_region_restore(struct proxy_client *s,
				const struct proxy_client_region *like);

/* Of nobody yet, and not on all's list. NULL: no memory. */
struct proxy_client *proxy_client_new(struct proxy_clients *all);
/* The client is gone, or has to go; why is for the log. Frees s at some later
 * turn, at once when it never attached. */
void proxy_client_drop(struct proxy_client *s, const char *why);
/* All of s, which nothing calls back for any more; as a timer calls.  */
void proxy_client_free(void *arg);
/* One step further in taking a gone client down, if it can be. */
void proxy_client_advance(struct proxy_client *s);
/* The client, a watch's argument, has said something. */
void proxy_client_on_message(void *arg, uint32_t events);
/* Never waits: a client that does not read its answers is dropped, and then
 * -EPIPE is returned and s must not be used. h->len is set by the caller. */
int proxy_client_send(struct proxy_client *s, const struct mpib_ctl_header *h,
		      const int *fd, unsigned fds);
/* An error answer to ask; the text is for the client's user. As _send(). */
int proxy_client_refuse(struct proxy_client *s,
			const struct mpib_ctl_header *ask, int status,
			const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* True when the user of s may hold so much more; else ask was refused, and s
 * may have been dropped. */
bool proxy_client_may(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      enum mpib_quota q, uint64_t more);
/* The bare answer, struct mpib_ctl_id. As _send(). */
int proxy_client_ok(struct proxy_client *s, const struct mpib_ctl_header *ask,
		    uint32_t id);

/* Take one checked message; descriptors left in m are closed by the caller. */
typedef void proxy_client_fn(struct proxy_client *s, struct mpib_message *m);
proxy_client_fn proxy_client_hello, proxy_client_pool, proxy_client_reg_fd,
	proxy_client_dereg, proxy_client_listen, proxy_client_close_listen,
	proxy_client_connect, proxy_client_accept, proxy_client_close,
	proxy_client_why;

/* Control thread. The clients of a user came or went: what each of them has,
 * and each shard's part of the user's limit. */
void mpib_shares_apply_user(struct proxy_clients *all, uid_t uid);
/* The rules changed. */
void mpib_shares_apply(struct proxy_clients *all);

/* Fence and drop every region. */
void proxy_client_drop_regions(struct proxy_client *s);
void proxy_client_free_regions(struct proxy_client *s);
/* Drop those that the rails do not know yet. */
void proxy_client_stop_filling(struct proxy_client *s);

/* Start taking the connections down; PROXY_CLIENT_REGIONS follows. */
void proxy_client_drop_conns(struct proxy_client *s);

#endif
