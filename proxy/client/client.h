/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one client per attached process, from accept() until the
 * last of its memory is unmapped. Control thread only.
 *
 * A client may send anything and die at any time. The proxy checks every
 * message before using it, and drops a client that does not read its answers.
 * When a client's process ends or hangs up, the proxy closes the client's
 * connections first. Then it fences and drops the client's regions, then its
 * segments. Only then does it unmap the client's memory.
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
	MPIB_REGION_ADDING, /* being registered with the rails and the shard */
	MPIB_REGION_FILLING, /* its pages are being allocated; then ADDING */
	MPIB_REGION_LIVE,
	MPIB_REGION_DELETING, /* being fenced: HCAs may still write there */
};

/* The kind of a region's memory. */
enum mpib_region_kind {
	MPIB_REGION_MEMFD, /* the client's memory */
	MPIB_REGION_POOL, /* allocated by the proxy for the client */
	MPIB_REGION_DMABUF, /* memory of a device; does not count in quotas */
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
	void *map; /* the proxy's mapping; NULL for a dma-buf */
	size_t map_len;
	/* The memfd or dma-buf. The proxy keeps it open until the region is
	 * deregistered. */
	int fd;

	/* State of filler.c, valid while FILLING. */
	TAILQ_ENTRY(proxy_client_region) fill_link;
	struct mpib_mr_attr attr; /* for the registration afterwards */
	size_t filled; /* bytes whose pages are allocated */
	size_t step; /* bytes of its piece in the current step; 0: none */
	bool must_be_there; /* the client must have allocated the pages */
};

enum proxy_client_state {
	PROXY_CLIENT_NEW, /* no HELLO yet */
	PROXY_CLIENT_LIVE,
	/* The process ended, or the proxy hung up: */
	PROXY_CLIENT_CONNS, /* the broker closes its connections */
	PROXY_CLIENT_REGIONS, /* its regions are being fenced */
	PROXY_CLIENT_CLOSING, /* the shard is removing it */
};

struct proxy_client {
	struct proxy_clients *all;
	TAILQ_ENTRY(proxy_client) link;
	enum proxy_client_state state;
	uint32_t id;
	uint32_t pid; /* from the kernel; 0: in another pid namespace */
	uid_t uid;
	struct mpib_waking waking;
	uint64_t job;
	char name[64]; /* printable */
	char label[MPIB_JOB_LABEL]; /* label of its job, printable; "": none */
	uint32_t job_at; /* index in all->jobs, from 1; 0: no job */
	struct engine_client_moved moved; /* set when the client is closed */

	int sock, pidfd; /* -1: closed, or no pidfd is available */
	struct mpib_io sock_watch, pid_watch;
	/* The time limit for the HELLO; after the client's end, the time until
	 * device memory is released. */
	struct mpib_timer hello_timer;

	struct peer_client peer_client; /* shard, tenant, client */
	struct mpib_memseg submit, reply;
	/* Bytes of `submit` and `reply`; 0 until usage.mapped includes them. */
	uint64_t segments;
	int doorbell; /* eventfd for the client to wake its shard, or -1 */

	LIST_HEAD(, proxy_client_region) regions;
	/* Regions to fill, the next one first. While not empty, the client is
	 * on all->filling. */
	TAILQ_HEAD(, proxy_client_region) filling;
	TAILQ_ENTRY(proxy_client) fill_link;
	unsigned region_count, region_fds, adding;
	uint64_t registered, of_kind[MPIB_REGION_KINDS]; /* bytes */
	unsigned listeners;
	struct mpib_quota_user *user;
	/* The current shares of the client and of its user. */
	struct mpib_share share, of_user;
	struct mpib_process process;
	bool returned; /* it was attached to an earlier proxy */
	struct mpib_survivor *record; /* record for the next proxy; or NULL */
	/* `told`: number of the last upgrade that was announced to the client.
	 * `prepared`: number of the last upgrade for which the client has
	 * attached to the successor. */
	uint32_t told, prepared;
};

/* The maximum number of pieces in a step. Each step costs two thread switches,
 * and after a restart each rank registers hundreds of small regions again. */
#define MPIB_FILL_PIECES 32

/*
 * The thread that makes the kernel allocate pages, one step at a time. A GiB
 * takes about a second, which would block the control thread.
 */
struct mpib_filler {
	struct mpib_io watch;
	/* Rings in the control thread when a step has ended. */
	struct mpib_bell bell;
	pthread_mutex_t lock; /* protects all fields below */
	pthread_cond_t changed;
	struct mpib_fill_piece {
		void *at;
		size_t len;
		int fd; /* -1: the pages need not exist */
	} piece[MPIB_FILL_PIECES];
	unsigned asked; /* pieces of the step; 0: none is in progress */
	/* The result of a step. `over`: the step has ended. `done`: the number
	 * of filled pieces. `rc`: 0, or the error of the piece after these. */
	bool over;
	unsigned done;
	int rc;
};

/* Resources that the proxy holds for clients; all zero if none is attached. */
struct mpib_usage {
	uint32_t clients, attached, leaving, regions;
	uint64_t registered, mapped;
};

struct proxy_clients {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_config *cfg;
	uint64_t most[MPIB_QUOTAS]; /* current quotas; 0: no limit */

	/* A spare descriptor, or -1. If all other descriptors are in use, the
	 * proxy closes the spare for a moment, accepts a client, and tells the
	 * client why it is refused. */
	int spare;
	struct mpib_acceptor acceptor;
	TAILQ_HEAD(proxy_client_list, proxy_client) list;
	TAILQ_HEAD(, proxy_client) filling; /* round robin, next one first */
	struct mpib_filler filler;
	/* The regions whose pieces are in the filler's step. */
	struct proxy_client_region *stepping[MPIB_FILL_PIECES];
	unsigned pieces;
	struct mpib_quota_user *users; /* by uid */
	uint32_t next_id;
	uint32_t on_shard[MPIB_SHARDS_MAX];
	struct mpib_usage usage;
	struct mpib_jobs jobs;
	struct mpib_survivors survivors;
	struct mpib_timer look; /* checks whether the survivors are back */
	/* Numbers of refused clients and of rejected requests. */
	uint64_t refused, rejected;
	/* This proxy is a successor and its predecessor still serves: clients
	 * can only attach and register memory. */
	bool awaits;
	/* The first client that cannot attach to the successor, and the
	 * reason. */
	char next_why[400];
};

/* Serve the listening socket fd, which the caller still owns. Returns 0 or
 * -errno. */
int proxy_clients_init(struct proxy_clients *all, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_config *cfg, int fd);
/* Apply changed limits of the configuration. */
void proxy_clients_tune(struct proxy_clients *all);
/* Return the attached client with that id, even if it is leaving; or NULL. */
struct proxy_client *proxy_clients_known(const struct proxy_clients *all,
					 uint64_t id);
/* Like proxy_clients_known(), but NULL for a client that is leaving. */
struct proxy_client *proxy_clients_find(struct proxy_clients *all, uint64_t id);

/* Tell each client to attach to the successor of upgrade `number`, counted from
 * 1. Returns how many have not attached yet; call again until that is 0. Until
 * then, `why` names one of these clients or, if a client cannot attach, has the
 * reason (all->next_why). */
unsigned proxy_clients_prepare(struct proxy_clients *all, uint32_t number,
			       char *why, size_t len);
/* The upgrade failed: tell the clients to forget the successor. */
void proxy_clients_stay(struct proxy_clients *all);
/* Let new clients attach: this proxy, a successor, begins to serve. */
void proxy_clients_serve(struct proxy_clients *all);

/* The rest is for the files of this folder. */

/* Hang up on a client that ended or must leave, and log `why`. s is freed in a
 * later turn of the loop. */
void proxy_client_drop(struct proxy_client *s, const char *why);
/* Take the next step of closing a client, if it is due. */
void proxy_client_advance(struct proxy_client *s);
/* Loop callback: the socket of the client `arg` is readable. */
void proxy_client_on_message(void *arg, uint32_t events);
/* Send without blocking. A client that does not read its answers is dropped:
 * returns -EPIPE, and the caller must not use s any more. The caller sets
 * h->len. */
int proxy_client_send(struct proxy_client *s, const struct mpib_ctl_header *h,
		      const int *fd, unsigned fds);
/* Answer the request `ask` with an error; the text is for the client's user.
 * Returns like proxy_client_send(). */
int proxy_client_refuse(struct proxy_client *s,
			const struct mpib_ctl_header *ask, int status,
			const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Return whether quota q allows the user of s to hold `more` in addition. If
 * false, the request `ask` has been refused, and s may have been dropped. */
bool proxy_client_may(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      enum mpib_quota q, uint64_t more);
/* Answer the request `ask` with a struct mpib_ctl_id. Returns like
 * proxy_client_send(). */
int proxy_client_ok(struct proxy_client *s, const struct mpib_ctl_header *ask,
		    uint32_t id);

/* Handlers. Each handles one type of checked message. A handler may take
 * descriptors from m; the caller closes the others. */
typedef void proxy_client_fn(struct proxy_client *s, struct mpib_message *m);
proxy_client_fn proxy_client_hello, proxy_client_pool, proxy_client_reg_fd,
	proxy_client_dereg, proxy_client_listen, proxy_client_close_listen,
	proxy_client_connect, proxy_client_accept, proxy_client_close,
	proxy_client_device, proxy_client_next, proxy_client_resumed;

/* Log that the client is attached, and record its process for the next
 * proxy. */
void proxy_client_served(struct proxy_client *s);

/* Set the shares of the user's clients and each shard's part of the user's
 * limit. Call this after a client of the user attached or left. */
void mpib_shares_apply_user(struct proxy_clients *all, uid_t uid);
/* Call mpib_shares_apply_user() for all users, after the rules changed. */
void mpib_shares_apply(struct proxy_clients *all);

/* Free r, which must not be in use by rails, shard or filler. It may be
 * FILLING. */
void mpib_region_free(struct proxy_client_region *r);
/* Register r with the rails and the shard, then answer the client. If the
 * registration fails immediately, refuse the request and free r. */
void mpib_region_add(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Start fencing and dropping every LIVE region. */
void proxy_client_drop_regions(struct proxy_client *s);
/* Deregister and close the device memory of `arg`, a client that has left.
 * Peers may still use that memory. If removing the memory would break
 * connections of other clients, the memory stays. */
void proxy_client_let_go(void *arg);

/* Start the filler's thread. Returns 0 or -errno. */
int mpib_filler_start(struct proxy_clients *all);

/*
 * The filler: it allocates the pages of a region before the rails register it.
 * Page allocation is most of the cost of registering, so the filler's thread
 * does it in steps. A step fills pieces of several regions and takes about 2
 * ms. Clients take turns, and so do the regions of one client. Between two
 * pieces of its own, a client waits for at most one step, no matter how many
 * and how large the regions of other clients are.
 *
 * A region is FILLING from mpib_fill_begin() to mpib_fill_end(). It counts in
 * the client's quotas from the start. When the client leaves, the region is
 * freed after the current step. Other clients wait for that step. If the client
 * punches a hole into the memory during the step, the step takes 0.2 s per GiB.
 * Control thread only.
 */

/* The maximum size of a piece: one huge page. With 4 KiB pages a piece takes
 * about 2 ms. */
#define MPIB_FILL_PIECE ((size_t)2 << 20)

/* Allocate the pages of the mapped region r, then register r with `attr`. On
 * failure, refuse the client's request and free r. */
void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Take r off the queue; the caller then frees or registers it. */
void mpib_fill_end(struct proxy_client_region *r);
/* The client leaves: free its FILLING regions, except those that the filler
 * uses. */
void mpib_fill_stop(struct proxy_client *s);
/* Refuse `ask`, a request for a region of `size` bytes in fd: the kernel
 * allocated pages for only `filled` bytes, then failed with rc. */
void mpib_fill_refuse(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      int rc, int fd, uint64_t filled, uint64_t size);

/* Tell the client that connections were lost. */
void proxy_client_conns_lost(struct peer_client *client);

#endif
