/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as the rest of the proxy sees it. Every call here is made on the
 * control thread and returns without waiting for a shard; what takes a shard's
 * turn ends in a callback, which mpib_engine_dispatch() runs on the control
 * thread. Objects are freed by their last callback, never earlier.
 *
 *   engine      the rails, opened once per shard, and the shard threads
 *   tenant      one uid on one shard: a PD and an SRQ per rail
 *   client  one client process on its shard
 *   mr          one registered region of a client
 *   lane        all QPs between a tenant here and the same tenant on a peer's
 *               shard
 *   connection        one connection, sending or receiving, on a lane
 */
#ifndef MPIB_ENGINE_ENGINE_H
#define MPIB_ENGINE_ENGINE_H

#include <mpib/abi.h>
#include <mpib/segment.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/split/island.h"
#include "verbs/verbs.h"

#define MPIB_QPS_MAX 16 /* QPs of one rail of one lane */

struct mpib_engine;
struct mpib_tenant;
struct engine_client;
struct mpib_lane;
struct engine_conn;

enum mpib_dmabuf_mode {
	MPIB_DMABUF_AUTO, /* where every rail can; never on the software HCA */
	MPIB_DMABUF_YES, /* an engine that cannot does not open */
	MPIB_DMABUF_NO,
};

/*
 * Where switches send the packets of one QP over many paths, the last packet
 * of a message may come before others. Then payload goes by RDMA WRITE, and an
 * RDMA WRITE_WITH_IMM that carries at most the completion record follows it.
 */
enum mpib_ar_mode {
	MPIB_AR_AUTO, /* on InfiniBand */
	MPIB_AR_ON,
	MPIB_AR_OFF,
};

/* How a rail's part of a message is spread over its QPs, see lane/spread.h. */
enum mpib_spread {
	MPIB_SPREAD_SPLIT, /* one QP carries it */
	MPIB_SPREAD_SPRAY, /* in fragments, and an IMM when they are answered */
	MPIB_SPREAD_DQPLB, /* in numbered fragments */
	MPIB_SPREAD_AUTO, /* split or spray, by size, as measured */
};

/* When a send is over, see docs/failover.md. */
enum mpib_completion_at {
	MPIB_COMPLETION_AUTO, /* delivered where a rail may fail, else wire */
	MPIB_COMPLETION_DELIVERED, /* the peer's shard has seen all of it */
	MPIB_COMPLETION_WIRE, /* the peer's devices acknowledged all of it */
};

#define MPIB_FRAG_MIN 4096u
#define MPIB_FRAG_MAX (64u << 20)

struct mpib_engine_config {
	unsigned rails; /* 1 (SOUT only) or 2 */
	struct mpib_rail_spec rail[MPIB_RAILS];
	unsigned shards; /* 1..MPIB_SHARDS_MAX */
	unsigned qps[MPIB_RAILS]; /* per lane, 1..MPIB_QPS_MAX */
	uint8_t mode; /* enum mpib_mode, policy.h */
	uint32_t sup_bw; /* static mode: SUP's share, parts per 1024 */
	uint32_t bdp; /* advanced mode: inter-island messages up to so many
			 bytes stay on SOUT */
	uint32_t srq_low, srq_high; /* receives posted per rail and tenant */
	uint32_t sq_depth; /* send WRs per QP */
	uint32_t cts_signal; /* every so many CTS are signalled */
	uint32_t lane_window; /* bytes in flight per lane and rail */
	uint32_t spread; /* enum mpib_spread */
	uint32_t frag; /* bytes of a fragment, cut to a multiple of 128;
			  MPIB_FRAG_MIN..MPIB_FRAG_MAX */
	uint32_t share_window; /* per rail of a shard, where tenants compete; 0:
				  none */
	uint32_t times; /* histograms are kept, see times.h */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer; /* ibv_modify_qp
								 encodings */
	int traffic_class; /* -1: 0 */
	int service_level; /* -1: on InfiniBand the communicator's class */
	uint32_t pkey_index;
	uint32_t ece; /* negotiate it, where both ends have it */
	uint32_t dmabuf; /* enum mpib_dmabuf_mode */
	uint32_t ar; /* enum mpib_ar_mode */
	uint32_t ar_threshold; /* bytes; up to so many ride on their IMM */
	bool failover; /* with two rails: a rail may fail, see failover.h */
	uint32_t completion; /* enum mpib_completion_at */
	uint32_t hold_ms; /* a rail that came back waits so long */
	uint32_t grace_ms; /* without any rail a lane waits so long */
	const struct mpib_engine_inherited *inherited; /* NULL: of nobody */
};

/*
 * What clients of a proxy have of its engine, for the one that takes over from
 * it. Such an engine is opened idle, see handover/handover.h.
 */
struct mpib_engine_inherited {
	int status; /* the segment, as mpib_engine_inherited() had it */
	unsigned shards;
	int doorbell[MPIB_SHARDS_MAX];
};
/* All of it stays the engine's. */
void mpib_engine_inherited(const struct mpib_engine *engine,
			   struct mpib_engine_inherited *h);

/* The defaults: 2 rails "soft", 2 + 4 QPs, static halves, 64/512, 128,
 * rnr_retry 6, ... */
void mpib_engine_config_init(struct mpib_engine_config *cfg);

/* status 0 or -errno. Control thread. */
typedef void mpib_done_fn(void *arg, int status);

struct mpib_rail_msg; /* engine/recovery/failover.h */

/* What the engine tells unasked. Control thread. why is one sentence. */
struct mpib_engine_events {
	/* The connection takes no more work: its clients' requests fail with error.
	 * It still has to be stopped and destroyed. */
	void (*conn_broken)(void *ctx, struct engine_conn *conn, int error,
			    const char *why);
	/* A QP of the lane failed; every connection on it is broken already. */
	void (*lane_broken)(void *ctx, struct mpib_lane *lane, int error,
			    const char *why);
	/* up follows the port's state. */
	void (*rail_changed)(void *ctx, unsigned rail, bool up);
	/* To the other end of the lane, in order: mpib_lane_receive() there. */
	void (*lane_send)(void *ctx, struct mpib_lane *lane,
			  const struct mpib_rail_msg *msg);
};

/*
 * Open both rails once per shard and start the shard threads. On failure
 * *engine is untouched, -errno is returned and why says which rail, call and
 * remedy.
 */
int mpib_engine_open(const struct mpib_engine_config *cfg,
		     const struct mpib_engine_events *events, void *ctx,
		     struct mpib_engine **engine, char *why, size_t why_len);
/* Joins the shards and frees what is left, without waiting for any peer. */
void mpib_engine_close(struct mpib_engine *engine);

/* Readable when mpib_engine_dispatch() has something to run. */
int mpib_engine_fd(const struct mpib_engine *engine);
void mpib_engine_dispatch(struct mpib_engine *engine);

unsigned mpib_engine_shards(const struct mpib_engine *engine);

/* For the clients: the sealed status segment, and a shard's doorbell. The fds
 * stay the engine's. */
int mpib_engine_status_fd(const struct mpib_engine *engine);
int mpib_engine_doorbell_fd(const struct mpib_engine *engine, unsigned shard);

/* Asks the device, so the GID is today's. -errno. */
int mpib_engine_port(struct mpib_engine *engine, unsigned rail,
		     struct mpib_port_info *info);
/* Bit per rail that failed for good: only another engine, when its device is
 * there again, can use it. Control thread. */
unsigned mpib_engine_lost(const struct mpib_engine *engine);
/* Whether the rail's device can be opened, as by another engine, and its port is
 * active: 0 or -errno. Any thread; may take as long as the driver does. */
int mpib_rail_there(const struct mpib_rail_spec *spec);
/* "soft (io_uring)", "rdma". */
const char *mpib_engine_provider(struct mpib_engine *engine, unsigned rail);
/* Whether every rail registers dma-bufs, by a probe at start. */
bool mpib_engine_dmabuf(const struct mpib_engine *engine);
/* Where hints are read, valid until mpib_engine_close(). Before the first
 * connection. */
struct mpib_hint_shm;
void mpib_engine_set_hints(struct mpib_engine *engine,
			   const struct mpib_hint_shm *hints);

/*
 * Put nothing new on a rail, or do again, at both ends of every lane. What is
 * in flight goes on. -EBUSY: no other rail is left.
 */
int mpib_engine_drain(struct mpib_engine *engine, unsigned rail, bool on);
/* Bit per drained rail. Any thread. */
unsigned mpib_engine_drained(const struct mpib_engine *engine);
/* Take over what may change while it runs: sup_bw, lane_window, share_window
 * and times. */
void mpib_engine_tune(struct mpib_engine *engine,
		      const struct mpib_engine_config *cfg);

/*
 * Why mpib_tenant_get(), mpib_mr_add(), mpib_lane_create() or
 * engine_conn_create() failed just now with rc: device, call, cause and remedy
 * where it was a verbs call. Control thread; valid until the next failure.
 */
const char *mpib_engine_last_error(struct mpib_engine *engine, int rc);
/* As users know it: "SOUT" or "SUP". Any thread. */
const char *mpib_rail_name(unsigned rail);

/*
 * Whose turn it is on the rails, see lane/drr.h: a tenant among those of its
 * shard, a client among its tenant's, a connection among its client's. weight 1
 * to 100, 0 is the usual 10; rate bytes a second, 0 without limit. Any thread,
 * at any time while the object is.
 */
void mpib_tenant_share(struct mpib_tenant *tenant, uint32_t weight,
		       uint64_t rate);
void engine_client_qos(struct engine_client *client, uint32_t weight,
		       uint64_t rate);
void engine_conn_qos(struct engine_conn *conn, uint32_t weight, uint64_t rate);

/* Counted, for clients and lanes count as well; with the last of them it is
 * freed. Creates PD and SRQ on first use. -errno; -ENOSPC: the rails' completion
 * queues have no room for the receives of one more. */
int mpib_tenant_get(struct mpib_engine *engine, unsigned shard, uid_t uid,
		    struct mpib_tenant **tenant);
void mpib_tenant_put(struct mpib_tenant *tenant);

/* The maps stay valid until engine_client_close() calls back. id is what
 * tools show. -errno. */
int engine_client_open(struct mpib_tenant *tenant, uint32_t id,
		       struct mpib_submit *submit, struct mpib_reply *reply,
		       struct engine_client **client);
uint32_t engine_client_id(const struct engine_client *client);
/* After all its connections are destroyed and its regions deleted. */
void engine_client_close(struct engine_client *client, mpib_done_fn *done,
			 void *arg);

struct mpib_mr_attr {
	void *addr; /* proxy's own mapping; NULL for a dma-buf */
	size_t len;
	int dmabuf_fd; /* -1 unless a dma-buf; caller's */
	uint64_t dmabuf_offset;
	bool strict; /* no relaxed ordering */
	bool present; /* all its pages are made */
};

/*
 * Register on every rail whose device is there; -ENETDOWN where there is none.
 * done(arg, 0) when descriptors may name *handle; an error return means done is
 * never called. Handles are small numbers from 1 and are reused.
 */
int mpib_mr_add(struct engine_client *client, const struct mpib_mr_attr *attr,
		uint32_t *handle, mpib_done_fn *done, void *arg);
/*
 * A fence: connections of the client that still use the region are broken with
 * -ECANCELED (conn_broken is called, the owner stops and destroys them); done
 * when nothing uses it and it is deregistered. -ENOENT: no such handle.
 */
int mpib_mr_del(struct engine_client *client, uint32_t handle,
		mpib_done_fn *done, void *arg);

/* One end of a lane, as the other end must know it. Sent on the peer link. */
struct mpib_lane_info {
	uint8_t imm_version; /* MPIB_IMM_V1: this lane serves one connection */
	uint8_t mode; /* enum mpib_mode of this end */
	uint8_t path; /* enum mpib_path as this end sees it */
	uint8_t rails; /* 1 where isolation leaves SUP out */
	uint8_t failover; /* this end can move traffic between rails */
	uint8_t spread; /* enum mpib_spread of this end */
	bool delivered; /* this end writes and awaits end-to-end ack */
	uint8_t away; /* rails whose QPs are not made yet: an end has lost the
			 device. Of these qps alone says something */
	struct mpib_lane_rail_info {
		uint8_t gid[16];
		uint16_t lid;
		uint8_t mtu; /* enum ibv_mtu */
		uint8_t link_layer;
		uint8_t qps;
		uint32_t qpn[MPIB_QPS_MAX];
		uint32_t psn[MPIB_QPS_MAX];
		bool ece; /* the next two hold: struct ibv_ece */
		uint32_t ece_vendor[MPIB_QPS_MAX];
		uint32_t ece_options[MPIB_QPS_MAX];
	} rail[MPIB_RAILS];
};

/*
 * Create the QPs. qps, rails and imm_version come from the end that opens the
 * lane (want == NULL: by configuration and imm_version; else as the opener's
 * info says, -ENOTSUP when that cannot be). path is where this end sees the
 * peer; in vanilla mode a lane to another island has no QPs on SUP, and both
 * ends have to see it alike (-EPROTO). So it is with spread, which is
 * mpib_engine_spread() unless the peer is too old to know of it. A rail whose
 * device an end has lost has no QPs until another engine offers them; -ENETDOWN
 * where no other rail or no fail-over is. -errno.
 */
int mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
		     enum mpib_path path, enum mpib_spread spread,
		     const struct mpib_lane_info *want,
		     struct mpib_lane **lane);
/* As configured; where the network takes many paths (adaptive routing), spray
 * in place of dqplb, whose IMMs come with payload. Any thread. */
enum mpib_spread mpib_engine_spread(const struct mpib_engine *engine);
const char *mpib_spread_name(enum mpib_spread spread);
/* "vanilla, inter-island": what -EPROTO is about. Returns buf. */
char *mpib_lane_view(uint8_t mode, uint8_t path, char *buf, size_t len);
/* Mode of this engine. Any thread. */
uint8_t mpib_engine_mode(const struct mpib_engine *engine);
void mpib_lane_local(const struct mpib_lane *lane, struct mpib_lane_info *info);
/* Packets of the lane carry this class (RoCE: traffic class; InfiniBand: service
 * level, too) and not the configured one; 0: no class of its own. Both ends
 * set the same, before mpib_lane_connect(). */
void mpib_lane_set_class(struct mpib_lane *lane, uint8_t traffic_class);
/* Made without a rail whose device an end has lost: the peer has to know of such
 * lanes. */
bool mpib_lane_is_short(const struct mpib_lane *lane);
/* The peer is too old to know of end-to-end ack: sends end when its devices
 * acknowledge them. Before mpib_lane_local(). */
void mpib_lane_set_wire(struct mpib_lane *lane);
/* To RTR and RTS against the other end, and hand over to the shard. -errno and
 * why (device, call, cause). */
int mpib_lane_connect(struct mpib_lane *lane,
		      const struct mpib_lane_info *remote, char *why,
		      size_t why_len);
/* Move its QPs to ERR and flush them: after done nothing of the lane is in
 * flight here and no peer can write through it. Breaks its connections. */
void mpib_lane_kill(struct mpib_lane *lane, mpib_done_fn *done, void *arg);
/* Not connected, or killed, and no connection left. */
void mpib_lane_destroy(struct mpib_lane *lane, mpib_done_fn *done, void *arg);

/* One end of a connection, as the other end must know it. */
struct engine_conn_info {
	uint32_t id; /* connection number for imm v2, as the receiver has it */
	uint32_t rkey[MPIB_RAILS];
	uint64_t addr; /* CTS table (sender's end), record table (receiver's) */
};

/*
 * A connection at index of the client's tables, with its tables zeroed and
 * registered. The client's and the lane's tenant are the same. -errno.
 */
int engine_conn_create(struct engine_client *client, uint32_t index,
		       bool sender, struct mpib_lane *lane,
		       struct engine_conn **conn);
void engine_conn_local(const struct engine_conn *conn,
		       struct engine_conn_info *info);
/* Which hint an agent gives it; UINT32_MAX: none. */
void engine_conn_set_hint(struct engine_conn *conn, uint32_t slot);
/* Hand over to the shard, which serves its ring from now on. */
void engine_conn_start(struct engine_conn *conn,
		       const struct engine_conn_info *remote);
/*
 * Take no more work, fail the client's outstanding requests with error after
 * what has already arrived is completed, and wait for our own WRs. done when
 * this end writes nothing any more. Started or not; a second call waits too.
 */
void engine_conn_stop(struct engine_conn *conn, int error, mpib_done_fn *done,
		      void *arg);
/* After stop, and when the peer cannot write to it any more (it said so, or
 * the lane was killed): drop its holds on regions and free it. */
void engine_conn_destroy(struct engine_conn *conn, mpib_done_fn *done,
			 void *arg);

#endif
