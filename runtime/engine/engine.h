/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's interface to the rest of the proxy. All calls run on the control
 * thread and return without waiting for a shard. When a shard has completed its
 * work for a call, mpib_engine_dispatch() runs the callback on the control
 * thread. An object remains valid until its last callback.
 *
 * An engine runs shard threads. Each shard belongs to one device and opens the
 * rails of that device. A device has one or two rails and its own shards. A
 * client attaches to one device. A tenant is one uid on one shard, with a PD
 * and an SRQ per rail. A client is one attached process on its shard. An mr is
 * one registered region of a client. A lane consists of all QPs between a
 * tenant here and the tenant of the same uid on a peer's shard. An engine_conn
 * is the sending or the receiving end of a connection, on a lane.
 */
#ifndef MPIB_ENGINE_ENGINE_H
#define MPIB_ENGINE_ENGINE_H

#include <mpib/abi.h>
#include <mpib/segment.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/split/mode.h"
#include "verbs/verbs.h"

#define MPIB_QPS_MAX 16 /* QPs of one rail of one lane */
#define MPIB_DEVICES_MAX 16
#define MPIB_RAILS_MAX (MPIB_DEVICES_MAX * MPIB_RAILS) /* of all devices */

struct mpib_engine;
struct mpib_tenant;
struct engine_client;
struct mpib_lane;
struct engine_conn;

enum mpib_dmabuf_mode {
	MPIB_DMABUF_AUTO, /* on if all rails support it; off on soft rails */
	MPIB_DMABUF_YES, /* mpib_engine_open() fails if a rail lacks it */
	MPIB_DMABUF_NO,
};

/*
 * Adaptive routing. If switches send the packets of one QP over many paths, the
 * last packet of a message may arrive before others. With adaptive routing an
 * RDMA WRITE carries the payload. An RDMA WRITE_WITH_IMM follows, with no
 * payload or with the completion record.
 */
enum mpib_ar_mode {
	MPIB_AR_AUTO, /* on InfiniBand */
	MPIB_AR_ON,
	MPIB_AR_OFF,
};

/* How a rail's part of a message is spread over the rail's QPs, see
 * lane/spread.h. */
enum mpib_spread {
	MPIB_SPREAD_SPLIT, /* one QP carries the whole part */
	/* fragments; the IMM is posted after all fragments are acknowledged */
	MPIB_SPREAD_SPRAY,
	MPIB_SPREAD_DQPLB, /* numbered fragments; the receiver orders them */
	/* split or spray: the faster one for this size, as measured */
	MPIB_SPREAD_AUTO,
};

/* The time when a send completes, see docs/recovery.md. */
enum mpib_completion_at {
	MPIB_COMPLETION_AUTO, /* DELIVERED */
	MPIB_COMPLETION_DELIVERED, /* the peer's shard has seen every stripe */
	MPIB_COMPLETION_WIRE, /* the peer's devices acknowledged every WR */
};

#define MPIB_FRAG_MIN 4096u
#define MPIB_FRAG_MAX (64u << 20)

/*
 * All devices have the same number of rails and of shards. Rails and shards are
 * numbered across all devices: rail r of device d has the number d * rails + r,
 * and shard i of device d has the number d * shards + i. So a shard's number
 * also identifies its device, on this node and on a peer.
 */
struct mpib_engine_config {
	unsigned devices; /* 1..MPIB_DEVICES_MAX */
	unsigned rails; /* of a device: 1 (SOUT only) or 2 */
	struct mpib_rail_spec rail[MPIB_RAILS_MAX]; /* by number */
	/* per device; MPIB_SHARDS_MAX limits the total */
	unsigned shards;
	unsigned qps[MPIB_RAILS]; /* per lane, 1..MPIB_QPS_MAX */
	uint8_t mode; /* enum mpib_mode, mode.h */
	uint32_t sup_bw; /* static mode: SUP's share, parts per 1024 */
	/* advanced mode: inter-island messages up to this size stay on SOUT */
	uint32_t bdp;
	uint32_t srq_high; /* receives in a full SRQ, at least 32 */
	uint32_t sq_depth; /* send WRs per QP */
	uint32_t lane_window; /* bytes in flight per lane and rail */
	uint32_t spread; /* enum mpib_spread */
	uint32_t frag; /* MPIB_FRAG_MIN..MAX bytes, rounded down to 128 */
	/* bytes in flight per rail of a shard while tenants compete; 0: no
	 * limit */
	uint32_t share_window;
	/* Encoded as for ibv_modify_qp(). */
	uint8_t timeout, retry_cnt;
	int traffic_class; /* -1: class 0 */
	/* -1: on InfiniBand, use the communicator's traffic class */
	int service_level;
	uint32_t pkey_index;
	uint32_t ece; /* negotiate ECE if the devices of both ends support it */
	uint32_t dmabuf; /* enum mpib_dmabuf_mode */
	uint32_t ar; /* enum mpib_ar_mode */
	/* with ar: WRITE_WITH_IMM carries payload up to this size */
	uint32_t ar_threshold;
	bool cq_whole; /* a tenant may use more than a quarter of a CQ */
	bool failover; /* with two rails: move traffic off a failed rail, see
			  recovery/failover.h */
	uint32_t completion; /* enum mpib_completion_at */
	uint32_t hold_ms; /* hold-down of a rail that failed */
	/* a lane breaks after this time without a live rail */
	uint32_t grace_ms;
	/* After a lane is lost, the ranks continue its connections at other
	 * indices, see MPIB_BROKEN_LOST. */
	bool resume;
	/* Choose CPUs for a shard whose SOUT is on this NUMA node, among the
	 * CPUs that the process may use. If the function returns false or is
	 * NULL, the shard runs on any CPU. Called on the control thread while
	 * the engine is opened. */
	bool (*cpus_near)(int node, cpu_set_t *cpus);
};

/* Return the number of receives below which an SRQ is refilled. */
static inline uint32_t mpib_srq_least(const struct mpib_engine_config *cfg)
{
	return cfg->srq_high / 8;
}

/* Fill in the defaults. */
void mpib_engine_config_init(struct mpib_engine_config *cfg);

/* Runs on the control thread. `status` is 0 or -errno. */
typedef void mpib_done_fn(void *arg, int status);

struct mpib_rail_msg; /* engine/recovery/failover.h */

/* Callbacks of the engine, on the control thread. `why` is one sentence. */
struct mpib_engine_events {
	/* The connection broke: it accepts no new work, and its client's
	 * requests fail with `error`. The owner must still stop and destroy the
	 * connection. */
	void (*conn_broken)(void *ctx, struct engine_conn *conn, int error,
			    const char *why);
	/* A QP of the lane failed. All connections on the lane are already
	 * broken. */
	void (*lane_broken)(void *ctx, struct mpib_lane *lane, int error,
			    const char *why);
	/* Send `msg` over the peer link, in order. The peer's proxy must pass
	 * it to mpib_lane_receive() of the same lane. */
	void (*lane_send)(void *ctx, struct mpib_lane *lane,
			  const struct mpib_rail_msg *msg);
};

/*
 * Open the rails of each shard's device and start the shard threads. On
 * failure, return -errno, leave *engine unchanged, and write the rail, the call
 * and the remedy to `why`.
 */
int mpib_engine_open(const struct mpib_engine_config *cfg,
		     const struct mpib_engine_events *events, void *ctx,
		     struct mpib_engine **engine, char *why, size_t why_len);
/* Stop the shard threads and free every object, without waiting for any
 * peer. */
void mpib_engine_close(struct mpib_engine *engine);

/* Return an fd that is readable when mpib_engine_dispatch() has work. */
int mpib_engine_fd(const struct mpib_engine *engine);
void mpib_engine_dispatch(struct mpib_engine *engine);

/* Return the number of shards of all devices. */
unsigned mpib_engine_shards(const struct mpib_engine *engine);

/* Return the sealed status segment for clients. The engine owns the fd. */
int mpib_engine_status_fd(const struct mpib_engine *engine);

/* The following functions identify a rail by its number across all devices.
 * mpib_engine_port() does not query the device: it returns the state of the
 * port after its last event. -EIO: the device is gone. */
int mpib_engine_port(struct mpib_engine *engine, unsigned rail,
		     struct mpib_port_info *info);
/* Return the device's path in /sys, even if the device does not answer; "": the
 * device has none. */
const char *mpib_engine_place(struct mpib_engine *engine, unsigned rail);
/* Return one bit per rail that has failed for good. Even if the rail's HCA
 * works again, only a new engine can use the rail. Control thread. */
uint32_t mpib_engine_lost(const struct mpib_engine *engine);
/* Return one bit per rail whose port is not active, or which has failed for
 * good. Control thread. */
uint32_t mpib_engine_down(const struct mpib_engine *engine);
/* Return 0 if the rail's device can be opened and its port is active, else
 * -errno. Opens its own context. Any thread. May block in the driver. */
int mpib_rail_there(const struct mpib_rail_spec *spec);
/* Return the NUMA node of a shard's SOUT; -1: unknown, or none. */
int mpib_engine_node(const struct mpib_engine *engine, unsigned shard);
/* Return the provider's name, for example "soft (io_uring)" or "rdma". */
const char *mpib_engine_provider(struct mpib_engine *engine, unsigned rail);
/* Return whether the probe at the start found that every rail can register
 * dma-bufs. */
bool mpib_engine_dmabuf(const struct mpib_engine *engine);
/* Set the shared memory from which the shards read the agent's hints. Its size
 * is mpib_hint_bytes(MPIB_HINT_SLOTS_MAX). It must stay mapped until
 * mpib_engine_close(). Call this before the first connection is created. */
struct mpib_hint_shm;
void mpib_engine_set_hints(struct mpib_engine *engine,
			   const struct mpib_hint_shm *hints);

/* Return the setting failover.grace in ns. */
uint64_t mpib_engine_grace_ns(const struct mpib_engine *engine);
/* Start draining a rail for the operator, or stop draining it if `on` is false.
 * A drained rail gets no new WRs of this device's lanes, from either end. WRs
 * in flight still complete. -EBUSY: the operator has drained all other rails of
 * the device. */
int mpib_engine_drain(struct mpib_engine *engine, unsigned rail, bool on);
/* Also drain the rails of each device that the agent calls sick, until the next
 * call. `sick` has one bit per rail of a device; the lowest bit is SOUT. If a
 * device would have no rail left, its sick rails are not drained. */
void mpib_engine_drain_sick(struct mpib_engine *engine, uint8_t sick);
/* Return one bit per rail that is drained only because it is sick. Control
 * thread. */
uint32_t mpib_engine_drained_sick(const struct mpib_engine *engine);
/* Return one bit per drained rail. Any thread. */
uint32_t mpib_engine_drained(const struct mpib_engine *engine);
/* Put all QPs of a rail into ERR, as an HCA does after an error. Fail-over
 * repairs the lanes. */
void mpib_engine_break(struct mpib_engine *engine, unsigned rail);
/* Copy from `cfg` the settings that may change while the engine runs: sup_bw,
 * lane_window, share_window, times and cq_whole. */
void mpib_engine_tune(struct mpib_engine *engine,
		      const struct mpib_engine_config *cfg);

/* Return the reason why mpib_tenant_get(), mpib_mr_add(), mpib_lane_create() or
 * engine_conn_create() just failed with rc. If a verbs call failed, the text
 * names the device, the call, the cause and the remedy. Control thread; valid
 * until the next failure. */
const char *mpib_engine_last_error(struct mpib_engine *engine, int rc);
/* Return the rail's name for users: "SOUT" or "SUP". Any thread. */
const char *mpib_rail_name(unsigned rail);

/* Set the share of a tenant on its shard, or of a client in its tenant; see
 * lane/drr.h. `weight` is 1 to 100; 0: the default, 10. `rate` is in bytes per
 * second; 0: no limit. Any thread, at any time while the object exists. */
void mpib_tenant_share(struct mpib_tenant *tenant, uint32_t weight,
		       uint64_t rate);
void engine_client_qos(struct engine_client *client, uint32_t weight,
		       uint64_t rate);

/* Get the uid's tenant on the shard and add a reference. The first call creates
 * the tenant, with a PD and an SRQ per rail. Clients and lanes hold references,
 * too. Dropping the last reference frees the tenant. Returns 0 or -errno.
 * -ENOSPC: the rails' completion queues have no room for the receives of
 * another tenant. */
int mpib_tenant_get(struct mpib_engine *engine, unsigned shard, uid_t uid,
		    struct mpib_tenant **tenant);
void mpib_tenant_put(struct mpib_tenant *tenant);

/* Add a client. `submit` and `reply` must remain mapped, and `bell` open, until
 * engine_client_close() calls back. `bell` is an eventfd that no other client
 * uses. Each write to it wakes a sleeping shard. If `bell` is -1, no thread
 * runs the shard, and the caller calls mpib_shard_turn(). `id` is the client's
 * number in the output of tools. Returns 0 or -errno. */
int engine_client_open(struct mpib_tenant *tenant, uint32_t id,
		       struct mpib_submit *submit, struct mpib_reply *reply,
		       int bell, struct engine_client **client);
uint32_t engine_client_id(const struct engine_client *client);
/* Totals of a client's connections: traffic, and time stalled. */
struct engine_client_moved {
	uint64_t tx_bytes, rx_bytes, replayed_bytes, messages, stall_ns;
};

/* Remove a client after all its connections are destroyed and all its regions
 * are deleted. If `moved` is not NULL, *moved is filled in before `done` is
 * called. */
void engine_client_close(struct engine_client *client,
			 struct engine_client_moved *moved, mpib_done_fn *done,
			 void *arg);

struct mpib_mr_attr {
	void *addr; /* mapping in the proxy; NULL for a dma-buf */
	size_t len;
	/* -1 if the region is not a dma-buf; the caller closes the fd */
	int dmabuf_fd;
	uint64_t dmabuf_offset;
	bool present; /* every page of the region is resident */
	/* The client does not read received bytes before the completion. */
	bool any_order;
};

/* Register a region on every rail whose device is present. -ENETDOWN: no rail
 * has a device. done(arg, 0) runs when descriptors may use *handle. After an
 * error return, `done` is not called. Handles are small numbers from 1. A freed
 * handle is reused only after all other handles. */
int mpib_mr_add(struct engine_client *client, const struct mpib_mr_attr *attr,
		uint32_t *handle, mpib_done_fn *done, void *arg);
/* Delete a region. Connections of the client that still use the region break
 * with -ECANCELED: conn_broken is called, and the owner must stop and destroy
 * them. `done` runs after the region is unused and deregistered. -ENOENT: no
 * region has this handle. */
int mpib_mr_del(struct engine_client *client, uint32_t handle,
		mpib_done_fn *done, void *arg);
/* Deregister a region immediately. mpib_mr_del() must follow. Work that uses
 * the region fails, and a fence replaces the rail's QPs. mpib_mr_may_revoke()
 * returns whether the call is allowed. The call is not allowed if a lane has no
 * failover: the failed work would then break the lane, which the user's other
 * connections share. */
bool mpib_mr_may_revoke(const struct engine_client *client);
void mpib_mr_revoke(struct engine_client *client, uint32_t handle);

/* Description of this end of a lane, as sent to the peer on the peer link. */
struct mpib_lane_info {
	uint8_t imm_version; /* MPIB_IMM_V1: the lane serves one connection */
	uint8_t mode; /* enum mpib_mode of this end */
	uint8_t path; /* enum mpib_path as this end sees it */
	uint8_t rails; /* number of rails; 1 if path isolation excludes SUP */
	uint8_t failover; /* this end can move traffic between rails */
	uint8_t spread; /* enum mpib_spread of this end */
	bool delivered; /* this end uses end-to-end acks */
	/* One bit per rail that has no QPs because an end has lost its device.
	 * In rail[], only the field `qps` of such a rail is valid. */
	uint8_t away;
	struct mpib_lane_rail_info {
		uint8_t gid[16];
		uint16_t lid;
		uint8_t mtu; /* enum ibv_mtu */
		uint8_t link_layer, qps;
		/* maximum message size of the port; at least MPIB_MSG_LEAST */
		uint32_t max_msg_sz;
		uint32_t qpn[MPIB_QPS_MAX];
		uint32_t psn[MPIB_QPS_MAX];
		/* whether the next two fields are valid, see struct ibv_ece */
		bool ece;
		uint32_t ece_vendor[MPIB_QPS_MAX];
		uint32_t ece_options[MPIB_QPS_MAX];
	} rail[MPIB_RAILS];
};

/*
 * Create the lane's QPs. The opener of the lane passes NULL as `want`; its own
 * configuration determines the numbers of rails and QPs. The other end passes
 * the opener's info as `want`. `path` tells whether this end considers the peer
 * to be in the same island. In vanilla mode a lane to another island has no QPs
 * on SUP, and both ends must agree on the path. If an end has lost a rail's
 * device, the rail gets its QPs only after the proxy at that end is replaced.
 * Returns 0 or -errno, and mpib_engine_last_error() says why. -ENOTSUP: this
 * end cannot create the lane that `want` describes. -EPROTO: the ends differ in
 * mode, path or spread. -ENETDOWN: a rail's device is lost, and there is no
 * other rail or no failover.
 */
int mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
		     enum mpib_path path, const struct mpib_lane_info *want,
		     struct mpib_lane **lane);
const char *mpib_spread_name(enum mpib_spread spread);
void mpib_lane_local(const struct mpib_lane *lane, struct mpib_lane_info *info);
/* Set the traffic class of the lane's packets; 0: the configured one. On
 * InfiniBand the class may also determine the service level. Both ends must set
 * the same class before mpib_lane_connect(). */
void mpib_lane_set_class(struct mpib_lane *lane, uint8_t traffic_class);
/* Move the QPs to RTR and RTS with the peer's info, and pass the lane to the
 * shard. On failure, return -errno and write the device, the call and the cause
 * to `why`. */
int mpib_lane_connect(struct mpib_lane *lane,
		      const struct mpib_lane_info *remote, char *why,
		      size_t why_len);
/* Move the lane's QPs to ERR and flush them, and break the lane's connections.
 * When `done` runs, no WR of this end is in flight on the lane, and the peer
 * can no longer write through the lane. */
void mpib_lane_kill(struct mpib_lane *lane, mpib_done_fn *done, void *arg);
/* Destroy a lane that has no connections. The lane must have been killed,
 * unless it was never connected. */
void mpib_lane_destroy(struct mpib_lane *lane, mpib_done_fn *done, void *arg);

/* Description of this end of a connection, as sent to the peer. */
struct engine_conn_info {
	uint32_t id; /* the receiver's connection number, for IMM v2 */
	uint32_t rkey[MPIB_RAILS];
	uint64_t addr; /* CTS table of a sender, record table of a receiver */
};

/* Create a connection at this index of the client's connections. Its CTS and
 * record tables are registered and zeroed. `client` and `lane` must belong to
 * the same tenant. Returns 0 or -errno. */
int engine_conn_create(struct engine_client *client, uint32_t index,
		       bool sender, struct mpib_lane *lane,
		       struct engine_conn **conn);
void engine_conn_local(const struct engine_conn *conn,
		       struct engine_conn_info *info);
/* Set the number of the agent's hint for the connection; UINT32_MAX: none. */
void engine_conn_set_hint(struct engine_conn *conn, uint32_t slot);
/* Mark a connection as the continuation of an earlier one. A flush then also
 * covers the bytes of the earlier connection. Call this before
 * engine_conn_start(). */
void engine_conn_goes_on(struct engine_conn *conn);
/* Pass the connection to the shard, which then serves its ring. */
void engine_conn_start(struct engine_conn *conn,
		       const struct engine_conn_info *remote);
/*
 * Stop the connection: accept no new work, complete requests whose bytes have
 * arrived, and fail the client's other outstanding requests with `error`. If
 * `error` is MPIB_BROKEN_LOST, leave those requests unfinished. Then wait for
 * the connection's own WRs. `done` runs when this end has stopped writing. Call
 * this once, even if the connection was never started.
 */
void engine_conn_stop(struct engine_conn *conn, int error, mpib_done_fn *done,
		      void *arg);
/* Return a slot number of a stopped receiver. All slots below this number have
 * ended. Pass the number to engine_conn_peer_ended() at the sender's end,
 * before the sender stops. */
uint64_t engine_conn_ended(const struct engine_conn *conn);
/* Return whether a stopped connection has left requests unfinished, and nothing
 * has moved over its lane. */
bool engine_conn_unmoved(const struct engine_conn *conn);
void engine_conn_peer_ended(struct engine_conn *conn, uint64_t ended);
/* Drop all references to regions and free the connection. Call this after
 * engine_conn_stop(), and only when the peer has stopped or the lane was
 * killed. Only then can the peer no longer write. */
void engine_conn_destroy(struct engine_conn *conn, mpib_done_fn *done,
			 void *arg);

/* The reason why a rail of a lane was stopped, for the fence and its
 * counters. */

enum mpib_rail_cause {
	MPIB_CAUSE_NONE,
	MPIB_CAUSE_PORT, /* this node's port is down or its device failed */
	MPIB_CAUSE_ERROR, /* an error completion, or a refused post */
	/* no completion while the other rail makes progress */
	MPIB_CAUSE_STUCK,
	MPIB_CAUSE_PEER, /* the peer's proxy sent FENCE */
	/* the rail was reconnected, but the probes of one end failed */
	MPIB_CAUSE_PROBE,
	MPIB_CAUSES,
};

/* Return the cause as text for messages. Any thread. */
const char *mpib_rail_cause_name(enum mpib_rail_cause cause);

#endif
