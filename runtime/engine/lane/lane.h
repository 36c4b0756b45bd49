/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients, memory regions and lanes inside the engine. Fields and functions
 * belong to the shard thread unless the comment says "control thread".
 */
#ifndef MPIB_ENGINE_LANE_H
#define MPIB_ENGINE_LANE_H

#include <assert.h>
#include <mpib/wire.h>

#include "engine/rail/tenant.h"
#include "engine/recovery/failover.h"
#include "engine/shard.h"
#include "engine/split/adapt.h"

struct mpib_mr {
	struct engine_client *client;
	uint32_t handle;
	uint64_t addr; /* address of the first byte, as used in WRs and CTS */
	uint64_t len;
	struct ibv_mr *mr[MPIB_RAILS]; /* NULL: no device, see rail.h */
	uint32_t lkey[MPIB_RAILS], rkey[MPIB_RAILS]; /* 0 if `mr` is NULL */
	bool dead; /* control thread: the region is being deleted */
	bool revoked; /* control thread: deregistered, see mpib_mr_revoke() */
	bool device; /* a dma-buf, which may be flushed */
	/* Shard: references by send ranges, send ops and slots. */
	uint32_t refs;
	struct mpib_call *del; /* completes when `refs` is 0 */
};

/* Control thread. Call this only after the shard thread has ended, or for an
 * object that the shard thread never had. */
void engine_client_free(struct engine_client *a);
void mpib_lane_free(struct mpib_lane *lane);

/* Shard: take or drop a reference. */
static inline void mpib_mr_ref(struct mpib_mr *mr)
{
	mr->refs++;
}
void mpib_mr_unused(struct mpib_mr *mr);
static inline void mpib_mr_unref(struct mpib_mr *mr)
{
	assert(mr->refs > 0);
	if (--mr->refs == 0 && mr->del)
		mpib_mr_unused(mr);
}

struct engine_client {
	struct mpib_shard *shard;
	struct mpib_drr_class drr; /* child of the tenant's class */
	struct mpib_tenant *tenant;
	uint32_t id;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_mr *mr[MPIB_MRS_MAX]; /* indexed by handle; shard thread */
	struct engine_conn *conn[MPIB_INDEXES_MAX]; /* by index; shard thread */
	struct mpib_rail_counts
		closed[MPIB_RAILS]; /* counts of past connections; shard */
	uint64_t closed_messages;
	/* Total time that past connections were stalled. */
	uint64_t closed_stall_ns;
	/* Control thread. */
	/* NULL, or filled in when the client is removed */
	struct engine_client_moved *moved;
	TAILQ_HEAD(, engine_conn) timed;
	/* Durations of the requests of past connections, indexed by
	 * is_sender. */
	struct mpib_hist_counts closed_done[2];
	struct mpib_mr *mr_made[MPIB_MRS_MAX];
	uint32_t mr_given; /* the last handle assigned */
	/* The client's doorbell eventfd, owned by the caller; -1: none. */
	int bell;
	TAILQ_ENTRY(engine_client) link;
	struct mpib_msg msg;
};

struct mpib_lane_qp {
	struct mpib_lane *lane;
	struct ibv_qp *qp;
	uint32_t qpn; /* key of the hash table */
	uint8_t rail;
	uint32_t psn;
	/* numbers of WRs posted and done; a wr_id contains `posted` modulo
	 * 2^24 */
	uint32_t posted, retired;
	/* value of `posted` just after the last signalled WR was posted */
	uint32_t asked;
	/* -errno of ibv_post_send(); mpib_lanes_refused() handles it */
	int refused;
	/* no ECE was set on the QP, so the answer to the peer contains no
	 * ECE */
	bool no_ece;
	/* the CQ's budget has reserved entries for the QP; control thread */
	bool promised;
	bool last; /* the last WR was posted, see mpib_rail_post_last() */
	uint32_t cts_unsignaled; /* CTS since the last signalled CTS */
	/* WRs queued in this turn, not posted yet */
	struct mpib_wr_chain chain;
	/* on shard->dirty while the chain is not empty */
	SLIST_ENTRY(mpib_lane_qp) ring_link;
	UT_hash_handle hh;
};

/* The virtual QP of one rail of a lane, see spread.h. */
struct mpib_lane_spread {
	struct mpib_lane *lane;
	struct mpib_vqp *vqp; /* NULL: nothing is spread */
	uint8_t rail;
};

struct mpib_lane {
	struct mpib_shard *shard;
	struct mpib_tenant *tenant;
	uint8_t imm_version;
	uint8_t rails;
	uint8_t path; /* enum mpib_path */
	uint8_t traffic_class; /* 0: as configured */
	bool failover; /* both ends can move traffic between rails */
	bool delivered; /* a send completes at its end-to-end ack */
	uint8_t spread; /* enum mpib_spread */
	/* dqplb: all QPs of a rail except the first carry only fragments */
	bool numbered;
	uint32_t frag; /* bytes; longer stripes may be spread */
	struct mpib_choice choice[MPIB_RAILS]; /* auto: split or spray */
	uint32_t qps[MPIB_RAILS];
	/* number of QPs, from the first QP on, that slots use in rotation */
	uint32_t round[MPIB_RAILS];
	struct mpib_lane_spread via[MPIB_RAILS];
	struct mpib_lane_qp qp[MPIB_RAILS][MPIB_QPS_MAX];
	uint32_t depth; /* send WRs per QP */
	/* Largest WR, in bytes, that the rail's ports at both ends accept. The
	 * control thread owns the field, except while the shard owns the rail's
	 * QPs. */
	uint32_t rail_msg[MPIB_RAILS];
	char peer[MPIB_LABEL_MAX];
	/* the peer's GIDs at the first connect */
	union ibv_gid peer_gid[MPIB_RAILS];
	bool connected; /* control thread: the lane was passed to the shard */
	/* Mask of rails that were excluded when the lane was created. Control
	 * thread; the shard reads the mask once, in on_connect(). */
	uint8_t away;
	struct mpib_lane_control ctl; /* control thread */
	TAILQ_ENTRY(mpib_lane) made_link; /* control thread */
	/* Shard. */
	bool broken;
	struct mpib_tracker track[MPIB_RAILS]; /* of send ops */
	struct mpib_adapt adapt;
	/* Maximum bytes of a send op on one rail: the smallest rail_msg of all
	 * rails used so far. */
	uint32_t msg_most;
	/* Maximum size of a plain message, in bytes: the smaller of msg_most
	 * and shard->ar_above. */
	uint32_t plain_most;
	uint8_t all; /* bit mask of the rails */
	/* mask of LIVE rails, which may be posted to; 0 if the lane is
	 * broken */
	uint8_t open;
	uint8_t use; /* mask of open rails that new traffic uses */
	uint64_t use_since; /* time when `use` got this value */
	uint8_t drain; /* mask of rails that either end drains */
	uint32_t epoch[MPIB_RAILS];
	struct mpib_lane_rail rail[MPIB_RAILS];
	struct mpib_rail_watch watch[MPIB_RAILS];
	struct engine_conn_list conns;
	unsigned nconns;
	/* last turn in which a connection had no room to post */
	uint64_t full_turn;
	struct {
		uint64_t acked;
		uint32_t times;
		/* for sender.c: `times` counts checks since `acked` changed */
	} looked[MPIB_RAILS];
	TAILQ_ENTRY(mpib_lane) link;
	bool moved; /* the watchdog has seen progress on a rail */
	/* The lane is on shard->watched. WRs were posted on the lane, and the
	 * watchdog has not seen all of them complete. */
	bool watched;
	LIST_ENTRY(mpib_lane) watch_link;
	/* Totals of past connections, plus the events that belong to no
	 * connection. */
	uint64_t messages;
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_call *kill;
	struct mpib_msg msg;
};

/*
 * Bits of wr_id: kind 4 | connection 20 | send op 16 | QP's posted count 24. In
 * error completions wr_id is valid, but opcode is not.
 */
enum mpib_wr_kind {
	MPIB_WR_UNSIGNALED = 1, /* inside a chain, or an unsignalled CTS */
	MPIB_WR_OP, /* last WR of a chain: this rail's stripe of a send op */
	MPIB_WR_CTS, /* a signalled CTS or end-to-end ack */
	MPIB_WR_STOP, /* a stopping connection's last write on the rail */
	MPIB_WR_LAST, /* the last WR of a QP in ERR, to be flushed */
	/* last WR of a replay; the op field has the send op's number and,
	 * shifted left by 8 bits, the stripes */
	MPIB_WR_REPLAY,
	MPIB_WR_PROBE, /* empty write that checks whether the QP works */
	/* a READ of a loop-back QP; the op field has the flush's number */
	MPIB_WR_FLUSH,
	/* a fragment, or the WRITE with the IMM; the op field has the virtual
	 * QP's port */
	MPIB_WR_SPREAD,
};

static inline enum mpib_wr_kind mpib_wr_kind(uint64_t wr_id)
{
	return (enum mpib_wr_kind)(wr_id >> 60);
}

static inline uint32_t mpib_wr_conn(uint64_t wr_id)
{
	return (uint32_t)(wr_id >> 40) & 0xfffff;
}

static inline uint32_t mpib_wr_op(uint64_t wr_id)
{
	return (uint32_t)(wr_id >> 24) & 0xffff;
}

/* Maximum number of WRs that are posted without a check of the shard's pool.
 * The WRs are those of the other rail's chain and of a replay. */
#define MPIB_WR_SPARE 128u

static inline uint32_t mpib_qp_outstanding(const struct mpib_lane_qp *q)
{
	return (q->posted - q->retired) & 0xffffff;
}

/* Return whether `wrs` more WRs may be posted to the QP now. The QP's SQ, its
 * rail's CQ and the shard's pool of WRs must have room for them. One QP gets at
 * most about half of the CQ places that the other QPs leave free. So QPs to
 * stopped peers do not use up the CQ. */
static inline bool mpib_qp_fits(const struct mpib_lane_qp *q, unsigned rail,
				uint32_t wrs)
{
	const struct mpib_shard *s = q->lane->shard;
	uint32_t used = mpib_qp_outstanding(q) + wrs;

	return used <= q->lane->depth &&
	       mpib_budget_fits(&s->rail[rail].budget, used) &&
	       s->wrs.left >= 2 * MPIB_WR_SPARE;
}

static inline uint64_t mpib_wr_tag(enum mpib_wr_kind kind, uint32_t conn,
				   uint32_t op)
{
	return (uint64_t)kind << 60 | (uint64_t)conn << 40 | (uint64_t)op << 24;
}

/* qps.c: put the QP on shard->dirty, because this turn queues WRs for it. */
static inline void mpib_qp_due(struct mpib_lane_qp *q)
{
	if (!q->chain.n)
		SLIST_INSERT_HEAD(&q->lane->shard->dirty, q, ring_link);
}

/*
 * Append the WRs of c, at least one, to the chain of a QP on `rail`. The chain
 * is posted with one doorbell at the end of the turn. The caller has checked
 * for room. Only the last WR is signalled, unless its kind is UNSIGNALED. The
 * wr_id of the last WR is `last`, made by mpib_wr_tag(). The wr_ids of the
 * other WRs contain the connection's id, `conn`. This function adds q->posted
 * to each wr_id. If ibv_post_send() fails at the doorbell, q->refused holds the
 * error.
 */
static inline void mpib_qp_post(struct mpib_lane_qp *q, unsigned rail,
				const struct mpib_wr_chain *c, uint32_t conn,
				uint64_t last)
{
	struct ibv_send_wr *wr = &c->first->wr;

	mpib_qp_due(q);
	/* Count down, because the compiler then drops the loop for a chain of
	 * one WR. */
	for (uint32_t i = c->n; i > 1; i--, wr = wr->next)
		wr->wr_id = mpib_wr_tag(MPIB_WR_UNSIGNALED, conn, 0) |
			    (++q->posted & 0xffffff);
	wr->wr_id = last | (++q->posted & 0xffffff);
	if (mpib_wr_kind(last) != MPIB_WR_UNSIGNALED) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		q->asked = q->posted;
	}
	mpib_wr_chain_join(&q->chain, c);
	mpib_budget_send(&q->lane->shard->rail[rail].budget, c->n);
}

/* Like mpib_qp_post(), for one WR whose wr_id is already set. */
static inline void mpib_qp_add(struct mpib_lane_qp *q, struct mpib_wr *w)
{
	mpib_qp_due(q);
	w->wr.wr_id |= ++q->posted & 0xffffff;
	if (w->wr.send_flags & IBV_SEND_SIGNALED)
		q->asked = q->posted;
	mpib_wr_chain_add(&q->chain, w);
	mpib_budget_send(&q->lane->shard->rail[q->rail].budget, 1);
}
/* qps.c: return a WRITE from the shard's pool for mpib_qp_add(). The WRITE has
 * no bytes, remote address or flags yet. The caller has checked
 * mpib_qp_fits(). */
struct mpib_wr *mpib_qp_write(struct mpib_lane_qp *q, uint64_t wr_id);
/* Post the QP's chain now instead of at the end of the turn. */
void mpib_qp_ring(struct mpib_lane_qp *q);
/* Post the WRs that this turn queued, with one ibv_post_send() per QP. Then
 * handle refused WRs. */
void mpib_qp_flush(struct mpib_shard *s);
/* Return whether mpib_qp_flush() has work. */
static inline bool mpib_qp_queued(const struct mpib_shard *s)
{
	return !SLIST_EMPTY(&s->dirty) || s->refused;
}
/* recovery/stop.c: treat each failed ibv_post_send() as a fault of its QP's
 * rail. */
void mpib_lanes_refused(struct mpib_shard *s);
/* Post a probe, an empty signalled write. The completion of the probe shows
 * that the QP works and that all earlier unsignalled WRs have completed. If no
 * other signalled WR is in flight on the QP, the probe uses its reserved entry
 * in the CQ, so a full budget does not prevent the probe. False: no room
 * now. */
bool mpib_qp_probe(struct mpib_lane_qp *q);

/* Count a WR that completed on the rail, and the unsignalled WRs before it, as
 * done. */
static inline void mpib_qp_retire(struct mpib_lane_qp *q, unsigned rail,
				  uint64_t wr_id)
{
	uint32_t upto = (uint32_t)(wr_id & 0xffffff);
	uint32_t n = (upto - q->retired) & 0xffffff;

	/* Ignore a completion that was already counted. */
	if (n > mpib_qp_outstanding(q))
		return;
	q->retired += n;
	mpib_budget_sent(&q->lane->shard->rail[rail].budget, n);
}

/* qps.c: fill in the address vector of the route from the rail's port to the
 * peer's port, for the transition to RTR. `port` is the current state of the
 * local port. Control thread. */
void mpib_route_fill(const struct mpib_lane *lane, const struct mpib_rail *rail,
		     const struct mpib_port_info *port,
		     const struct mpib_lane_rail_info *remote,
		     struct ibv_ah_attr *ah);

/* Shard, after the QPs went to ERR: post the last WR of each QP. Complete
 * lane->kill when all WRs are flushed. */
void mpib_lane_stop(struct mpib_lane *lane);
void mpib_lane_check_stopped(struct mpib_lane *lane);
/* Shard, after the rail's QPs went to ERR: post a last WR to each QP, which
 * completes after all other WRs of the QP. False: a QP refused its last WR.
 * There are two possible reasons. The QP's send queue may be full until
 * completions are polled. Or the device is gone, and no last WR will
 * complete. */
bool mpib_rail_post_last(struct mpib_lane *lane, unsigned rail);
bool mpib_rail_stopped(const struct mpib_lane *lane, unsigned rail);

/* qps.c, control thread: create, connect and destroy the QPs of one rail. */
int mpib_lane_make_qps(struct mpib_lane *lane, unsigned rail, unsigned qps);
void mpib_lane_free_qps(struct mpib_lane *lane, unsigned rail);
void mpib_lane_rail_local(const struct mpib_lane *lane, unsigned rail,
			  struct mpib_lane_rail_info *out);
int mpib_lane_connect_rail(struct mpib_lane *lane, unsigned rail,
			   const struct mpib_lane_rail_info *remote);
void mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned rail);
/* Shard: change the state of a rail. When the rail leaves DOWN, its QPs are
 * added to the table that maps completions to QPs. When the rail goes DOWN, its
 * QPs are removed from the table. */
void mpib_rail_enter(struct mpib_lane *lane, unsigned rail,
		     enum mpib_lane_rail_state state);
/* Shard: compute `open` and `use`, after `broken`, `drain` or a rail's state
 * has changed. */
void mpib_lane_reckon(struct mpib_lane *lane);
/* Shard: return whether a rail is being fenced, so that old writes may still
 * arrive. */
bool mpib_lane_fencing(const struct mpib_lane *lane);

#endif
