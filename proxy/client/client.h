/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one client per attached process, from accept() until the
 * last of the client's memory is unmapped. Control thread only.
 *
 * A client may send anything and die at any time. The proxy checks every
 * message before using it, and drops a client that does not read its answers.
 * When a client's process ends or hangs up, the proxy takes down the client's
 * connections first, then fences and drops its regions, then its segments; only
 * then is the client's memory unmapped.
 */
#ifndef MPIB_PROXY_CLIENT_H
#define MPIB_PROXY_CLIENT_H

#include <mpib/segment.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/bell.h"
#include "base/loop.h"
#include "base/memseg.h"
#include "base/users.h"
#include "client/quota.h"
#include "client/survivors.h"
#include "config/config.h"
#include "engine/engine.h"
#include "ipc/message.h"
#include "peer/broker.h"

struct proxy_clients;
struct proxy_client;

enum mpib_region_state {
	MPIB_REGION_ADDING, /* registered; the shard does not know it yet */
	MPIB_REGION_FILLING, /* before ADDING: its pages are being allocated */
	MPIB_REGION_LIVE,
	MPIB_REGION_DELETING, /* fence under way: HCAs may still write to it */
};

/* The kind of a region's memory. */
enum mpib_region_kind {
	MPIB_REGION_MEMFD, /* the client's memory */
	MPIB_REGION_POOL, /* made by the proxy for the client */
	MPIB_REGION_DMABUF, /* a device's memory, which no quota counts */
	MPIB_REGION_KINDS,
};

struct proxy_client_region {
	struct proxy_client *client;
	LIST_ENTRY(proxy_client_region) link;
	enum mpib_region_state state;
	uint32_t handle;
	/* The client's request that awaits an answer; type 0: none. */
	struct mpib_ctl_header ask;
	enum mpib_region_kind kind;
	uint64_t size; /* bytes that count in usage and quotas */
	void *map; /* the proxy's mapping, NULL for a dma-buf */
	size_t map_len;
	/* The memfd or dma-buf. The proxy keeps it open until the region is
	 * deregistered. */
	int fd;

	/* filler.c, while FILLING. */
	TAILQ_ENTRY(proxy_client_region) fill_link;
	struct mpib_mr_attr attr; /* to register with after that */
	size_t filled; /* bytes whose pages are allocated */
	bool must_be_there; /* by the client: the proxy allocates none */
};

enum proxy_client_state {
	PROXY_CLIENT_NEW, /* no HELLO yet */
	PROXY_CLIENT_LIVE,
	/* The process is gone, or was hung up on: */
	PROXY_CLIENT_CONNS, /* the broker takes its connections down */
	PROXY_CLIENT_REGIONS, /* its regions are being fenced */
	PROXY_CLIENT_CLOSING, /* the shard forgets it */
};

struct proxy_client {
	struct proxy_clients *all;
	TAILQ_ENTRY(proxy_client) link;
	enum proxy_client_state state;
	uint32_t id;
	uint32_t pid; /* from the kernel; 0: of another pid namespace */
	uid_t uid;
	struct mpib_waking waking;
	uint64_t job;
	char name[64]; /* printable */
	char label[MPIB_JOB_LABEL]; /* of its job, printable; "": none */
	uint32_t job_at; /* its place in all->jobs, from 1; 0: no job */
	struct engine_client_moved moved; /* once it is closed */

	int sock, pidfd; /* -1 when closed; pidfd: or not available */
	struct mpib_io sock_watch, pid_watch;
	struct mpib_timer hello_timer; /* then: until it lets go of devices */

	struct peer_client peer_client; /* shard, tenant, client */
	struct mpib_memseg submit, reply;
	uint64_t segments; /* their bytes, once they count */
	int doorbell; /* eventfd by which it wakes its shard, or -1 */

	LIST_HEAD(, proxy_client_region) regions;
	/* Regions to fill, the next one first. While there are any, the client
	 * is on all->filling. */
	TAILQ_HEAD(, proxy_client_region) filling;
	TAILQ_ENTRY(proxy_client) fill_link;
	unsigned region_count, region_fds, adding;
	uint64_t registered, of_kind[MPIB_REGION_KINDS]; /* bytes */
	unsigned listeners;
	struct mpib_quota_user *user;
	/* The shares in force, of the client and of its user. */
	struct mpib_share share, of_user;
	struct mpib_survivor *record; /* for the next proxy; or NULL */
	/* Numbers of upgrades: of which it was told, and for which it has attached
	 * to the successor. */
	uint32_t told, prepared;
	bool share_said; /* an operator set share: rules do not apply */
};

/*
 * The thread that has the kernel make pages, so that the control thread never
 * waits for that: a GiB takes about a second. One step at a time.
 */
struct mpib_filler {
	struct mpib_io watch;
	struct mpib_bell bell; /* to the control thread: a step is over */
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	void *at;
	size_t len;
	int fd; /* -1: the pages need not be there */
	bool asked, over;
	int rc;
};

/* What the proxy holds for clients; all zero when none is attached. */
struct mpib_usage {
	uint32_t clients, attached, leaving, regions;
	uint64_t registered, mapped;
};

/* A share that an operator set for a client of the last proxy. */
struct mpib_kept_share {
	uint32_t uid, pid, shard;
	struct mpib_share share;
};

#define MPIB_KEPT_SHARES 64

struct proxy_clients {
	struct mpib_loop *loop;
	/* Those whose clients have not attached again. */
	struct mpib_kept_share kept[MPIB_KEPT_SHARES];
	unsigned kept_count;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_config *cfg;
	uint64_t max_memory; /* bytes of a client */
	uint64_t most[MPIB_QUOTAS]; /* quotas in force; 0: no limit */

	/* A descriptor kept in reserve, or -1. Closed for a moment when none is
	 * left, so that a connecting client can be accepted and told why. */
	int spare;
	struct mpib_acceptor acceptor;
	TAILQ_HEAD(proxy_client_list, proxy_client) list;
	TAILQ_HEAD(, proxy_client) filling; /* round robin, next one first */
	struct mpib_filler filler;
	struct proxy_client_region *stepping; /* in filler's hands; or NULL */
	size_t step; /* its bytes */
	struct mpib_quota_user *users; /* by uid */
	uint32_t next_id;
	uint32_t on_shard[MPIB_SHARDS_MAX];
	struct mpib_usage usage;
	struct mpib_jobs jobs;
	struct mpib_survivors survivors;
	struct mpib_timer look; /* whether those are back */
	uint64_t accepted, refused, rejected; /* clients; rejected: requests */
	/* This is a successor, and its predecessor serves: clients attach and
	 * register memory, and may do no more. */
	bool awaits;
	/* The first client that cannot attach to the successor, and why; "" */
	char next_why[400];
};

/* Serve the listening socket fd, which the caller keeps and closes. -errno. */
int proxy_clients_init(struct proxy_clients *all, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_config *cfg, int fd);
/* Bring limits that changed in the configuration into force. */
void proxy_clients_tune(struct proxy_clients *all);
/* The attached client with that id, also while it is leaving; or NULL. */
struct proxy_client *proxy_clients_known(const struct proxy_clients *all,
					 uint64_t id);
/* Like proxy_clients_known(), but NULL for a client that is leaving. */
struct proxy_client *proxy_clients_find(struct proxy_clients *all, uint64_t id);

/* An upgrade of that number, from 1: have each client attach to the successor.
 * Call it again until it returns 0, the clients that have not yet; why is then the name
 * of one, or what one cannot do: all->next_why. */
unsigned proxy_clients_prepare(struct proxy_clients *all, uint32_t number,
			       char *why, size_t len);
/* The upgrade failed: have them forget the successor. */
void proxy_clients_stay(struct proxy_clients *all);
/* The successor serves from now on. */
void proxy_clients_serve(struct proxy_clients *all);

/* The rest is for the files of this folder. */

/* Hang up on the client, which is gone or has to go; why is for the log. s is
 * freed in a later turn of the loop. */
void proxy_client_drop(struct proxy_client *s, const char *why);
/* Free all of the client arg, for which no callback is outstanding. Its type is
 * that of a timer's function. */
void proxy_client_free(void *arg);
/* Take the next step in taking down a client that is gone, if it is due. */
void proxy_client_advance(struct proxy_client *s);
/* Loop callback: the socket of the client arg is readable. */
void proxy_client_on_message(void *arg, uint32_t events);
/* Never waits. A client that does not read its answers is dropped: -EPIPE, and
 * the caller must leave s alone. The caller sets h->len. */
int proxy_client_send(struct proxy_client *s, const struct mpib_ctl_header *h,
		      const int *fd, unsigned fds);
/* Answer ask with an error; the text is for the client's user. Returns like
 * proxy_client_send(). */
int proxy_client_refuse(struct proxy_client *s,
			const struct mpib_ctl_header *ask, int status,
			const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* True when the user of s may hold more of q. False: ask has been refused, and
 * s may have been dropped. */
bool proxy_client_may(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      enum mpib_quota q, uint64_t more);
/* Answer ask with a struct mpib_ctl_id. Returns like proxy_client_send(). */
int proxy_client_ok(struct proxy_client *s, const struct mpib_ctl_header *ask,
		    uint32_t id);

/* Handlers of one checked message each. The caller closes the descriptors that
 * a handler leaves in m. */
typedef void proxy_client_fn(struct proxy_client *s, struct mpib_message *m);
proxy_client_fn proxy_client_hello, proxy_client_pool, proxy_client_reg_fd,
	proxy_client_dereg, proxy_client_listen, proxy_client_close_listen,
	proxy_client_connect, proxy_client_accept, proxy_client_close,
	proxy_client_resume, proxy_client_why, proxy_client_device,
	proxy_client_next, proxy_client_resumed;

/* The client is served from now on: say so, and note its process for the next proxy. */
void proxy_client_served(struct proxy_client *s);

/* Clients of the user came or went: set each client's share anew, and each
 * shard's part of the user's limit. */
void mpib_shares_apply_user(struct proxy_clients *all, uid_t uid);
/* The rules changed: do so for all users. */
void mpib_shares_apply(struct proxy_clients *all);

/* Free r, which neither rails nor shard have, nor the filler; it may be FILLING. */
void mpib_region_free(struct proxy_client_region *r);
/* Register r with the rails and tell the shard; answers the client when that is
 * done. Where it fails at once, refuses the request and frees r. */
void mpib_region_add(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Start fencing and dropping every LIVE region. */
void proxy_client_drop_regions(struct proxy_client *s);
/* Deregister memory of devices whoever still uses it, and close it, unless that
 * would cost others their connections. arg is a client that has left. */
void proxy_client_let_go(void *arg);

/* Start the thread. -errno. */
int mpib_filler_start(struct proxy_clients *all);

/*
 * Allocating the pages of a region before the rails register it. Page
 * allocation is most of the cost of registering, so the thread above does it in
 * steps. Clients take turns, and so do the regions of one client:
 * however large or many one client's regions are, another client waits for one
 * foreign step per step of its own.
 *
 * A region is FILLING from mpib_fill_begin() to mpib_fill_end(). It counts in
 * the client's quotas from the start. When the client leaves, it is freed after the
 * step that is under way. Others wait for that step: it takes as long as another
 * thread of the client's punches a hole into the memory, 0.2 s a GiB. Control thread
 * only.
 */

/* One huge page, so that each is made whole. With 4 KiB pages a step takes some
 * 2 ms. */
#define MPIB_FILL_STEP ((size_t)2 << 20)

/* r is mapped. It is filled and then registered with attr; or the client's
 * request is refused and r freed. */
void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Take r off the queue; the caller then frees or registers it. */
void mpib_fill_end(struct proxy_client_region *r);
/* The client leaves: free its FILLING regions, but for one that the filler has. */
void mpib_fill_stop(struct proxy_client *s);
/* Refuse ask, which is for a region of size bytes in fd: the kernel gave pages
 * for filled bytes only, then failed with rc. */
void mpib_fill_refuse(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      int rc, int fd, uint64_t filled, uint64_t size);

/* Tell the client that connections are lost. */
void proxy_client_conns_lost(struct peer_client *client);

#endif
