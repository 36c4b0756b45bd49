/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one session per attached process, from accept to the
 * last of its memory. Control thread only.
 *
 * A client may say anything and die at any time. What it says is checked
 * before it is used; what it does not read is not kept for it. When its
 * process ends or it hangs up, its connections go first, then its regions are
 * fenced and dropped, then its segments: only then is its memory unmapped.
 */
#ifndef MPIB_PROXY_SESSION_H
#define MPIB_PROXY_SESSION_H

#include <mpib/segment.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "base/memseg.h"
#include "config/config.h"
#include "engine/engine.h"
#include "ipc/message.h"
#include "peer/broker.h"
#include "session/quota.h"

struct mpib_sessions;
struct mpib_session;

enum mpib_region_state {
	MPIB_REGION_ADDING, /* the shard does not know it yet */
	MPIB_REGION_FILLING, /* nor do the rails: its pages are made first */
	MPIB_REGION_LIVE,
	MPIB_REGION_DELETING, /* fenced; its memory may still be written */
};

struct mpib_session_region {
	struct mpib_session *session;
	LIST_ENTRY(mpib_session_region) link;
	enum mpib_region_state state;
	uint32_t handle;
	struct mpib_ctl_header ask; /* what to answer; type 0: nobody asks */
	uint64_t size; /* bytes the ledger counts */
	bool pool;
	void *map; /* our mapping, NULL for a dma-buf */
	size_t map_len;
	/* What is behind it, ours until it is deregistered: so that the memory
	 * stays what it is, and for a proxy that takes over. */
	int fd;
	uint64_t offset; /* of its first byte in there */
	bool dmabuf, strict;

	/* fill.c, while FILLING. */
	TAILQ_ENTRY(mpib_session_region) fill_link;
	struct mpib_mr_attr attr; /* for the rails, then */
	size_t filled; /* of its bytes */
};

enum mpib_session_state {
	MPIB_SESSION_NEW, /* no HELLO yet */
	MPIB_SESSION_LIVE,
	MPIB_SESSION_CONNS, /* gone: the broker takes its connections down */
	MPIB_SESSION_REGIONS, /* gone: its regions are being fenced */
	MPIB_SESSION_CLOSING, /* gone: the shard forgets it */
};

struct mpib_session {
	struct mpib_sessions *all;
	TAILQ_ENTRY(mpib_session) link;
	enum mpib_session_state state;
	uint32_t id;
	uint32_t pid; /* from the kernel; 0: not of our pid namespace */
	uid_t uid;
	gid_t gid;
	uint64_t job;
	char name[64]; /* printable */

	int sock, pidfd; /* -1 when closed or not to be had */
	struct mpib_watch sock_watch, pid_watch;
	struct mpib_timer hello_timer;

	struct mpib_owner owner; /* shard, tenant, attachment */
	struct mpib_memseg submit, reply;

	LIST_HEAD(, mpib_session_region) regions;
	/* The next to be filled first; all's list has s while there are some. */
	TAILQ_HEAD(, mpib_session_region) filling;
	TAILQ_ENTRY(mpib_session) fill_link;
	struct mpib_session_region **by_handle;
	uint32_t handles; /* entries of by_handle */
	unsigned region_count, region_fds, adding;
	uint64_t registered, pooled; /* pooled is a part of registered */
	unsigned listeners;
	struct mpib_quota_user *user;
	struct mpib_part share, of_user; /* in force */
	bool share_said; /* by an operator, so rules do not count */
};

/* What is held for clients; all zero when nobody is attached. */
struct mpib_ledger {
	uint32_t sessions, attached, leaving, regions;
	uint64_t registered, mapped;
};

struct mpib_sessions {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_config *cfg;
	uint64_t max_memory, max_pool;

	int fd;
	int spare; /* given up to tell a client that there is none; or -1 */
	struct mpib_watch watch;
	struct mpib_timer pause; /* after accept() found no descriptor */
	TAILQ_HEAD(mpib_session_list, mpib_session) list;
	TAILQ_HEAD(, mpib_session) filling; /* whose turn it is first */
	struct mpib_timer fill; /* armed while there are any */
	struct mpib_quota_user *users; /* by uid */
	uint32_t next_id;
	uint32_t on_shard[MPIB_SHARDS_MAX];
	struct mpib_ledger ledger;
	uint64_t accepted, refused, rejected; /* clients, and bad messages */
};

/* Serve the listening socket fd, which stays the caller's; none yet where it is
 * -1. -errno. */
int mpib_sessions_init(struct mpib_sessions *all, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_config *cfg, int fd);
/* Take over limits that changed in the configuration. */
void mpib_sessions_tune(struct mpib_sessions *all);
/* Take no more, and hang up on everybody at once. */
void mpib_sessions_stop(struct mpib_sessions *all);
/* Free all, after mpib_engine_close(): nothing calls back any more. */
void mpib_sessions_fini(struct mpib_sessions *all);
/* The client of that id that attached, leaving or not; NULL. */
struct mpib_session *mpib_sessions_known(const struct mpib_sessions *all,
					 uint64_t id);
/* Unless it is leaving. */
struct mpib_session *mpib_sessions_find(struct mpib_sessions *all, uint64_t id);

/* Between the files of sessions, and handover/. */

/* Serve the listening socket from now on. -errno. */
int mpib_sessions_listen(struct mpib_sessions *all, int fd);
/* A client of the shard from now on, counted as attached. -errno: what was made is
 * undone when the session is dropped. */
int mpib_session_attach(struct mpib_session *s, unsigned shard);
/* Listen to its socket, its process and, before its HELLO, the clock. */
int mpib_session_watch(struct mpib_session *s);
/* like with handle, size, offset, pool, dmabuf, strict and fd, which becomes
 * the region's: map and register it, its shard being halted. -1 and errno. */
int mpib_session_region_restore(struct mpib_session *s,
				const struct mpib_session_region *like);

/* Of nobody yet, and not on all's list. NULL: no memory. */
struct mpib_session *mpib_session_new(struct mpib_sessions *all);
/* The client is gone, or has to go; why is for the log. Frees s at some later
 * turn, at once when it never attached. */
void mpib_session_drop(struct mpib_session *s, const char *why);
/* All of s, which nothing calls back for any more; as a timer calls.  */
void mpib_session_free(void *arg);
/* One step further in taking a gone session down, if it can be. */
void mpib_session_advance(struct mpib_session *s);
/* The client, a watch's argument, has said something. */
void mpib_session_on_message(void *arg, uint32_t events);
/* Never waits: a client that does not read its answers is dropped, and then
 * -EPIPE is returned and s must not be used. h->len is set by the caller. */
int mpib_session_send(struct mpib_session *s, const struct mpib_ctl_header *h,
		      const int *fd, unsigned fds);
/* An error answer to ask; the text is for the client's user. As _send(). */
int mpib_session_refuse(struct mpib_session *s,
			const struct mpib_ctl_header *ask, int status,
			const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* True when the user of s may hold so much more; else ask was refused, and s
 * may have been dropped. */
bool mpib_session_may(struct mpib_session *s, const struct mpib_ctl_header *ask,
		      enum mpib_quota q, uint64_t more);
/* The bare answer, struct mpib_ctl_id. As _send(). */
int mpib_session_ok(struct mpib_session *s, const struct mpib_ctl_header *ask,
		    uint32_t id);

/* Take one checked message; descriptors left in m are closed by the caller. */
typedef void mpib_session_fn(struct mpib_session *s, struct mpib_message *m);
mpib_session_fn mpib_session_hello, mpib_session_pool, mpib_session_reg_fd,
	mpib_session_dereg, mpib_session_listen, mpib_session_close_listen,
	mpib_session_connect, mpib_session_accept, mpib_session_close,
	mpib_session_why;

/* Control thread. The clients of a user came or went: what each of them has,
 * and each shard's part of the user's limit. */
void mpib_shares_apply_user(struct mpib_sessions *all, uid_t uid);
/* The rules changed. */
void mpib_shares_apply(struct mpib_sessions *all);

/* Fence and drop every region. */
void mpib_session_drop_regions(struct mpib_session *s);
void mpib_session_free_regions(struct mpib_session *s);
/* Drop those that the rails do not know yet. */
void mpib_session_stop_filling(struct mpib_session *s);

/* Start taking the connections down; MPIB_SESSION_REGIONS follows. */
void mpib_session_drop_conns(struct mpib_session *s);

#endif
