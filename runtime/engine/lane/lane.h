/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: clients, regions and lanes.
 */
#ifndef MPIB_ENGINE_LANE_H
#define MPIB_ENGINE_LANE_H

#include "engine/rail/tenant.h"
#include "engine/recovery/failover.h"
#include "engine/shard.h"
#include "engine/split/adapt.h"
#include "engine/split/choice.h"

struct mpib_mr {
	struct engine_client *client;
	uint32_t handle;
	uint64_t addr; /* what the rails call its first byte */
	uint64_t len;
	struct ibv_mr *mr[MPIB_RAILS]; /* NULL: the rail was away, absent.h */
	uint32_t rkey[MPIB_RAILS]; /* 0 where there is none */
	bool dead; /* control thread: being deleted */
	/* Shard: send ops in flight or waiting, slots posted. */
	uint32_t refs;
	struct mpib_call *del; /* who waits for refs == 0 */
};

/* Control thread, shard joined or never told. */
void engine_client_free(struct engine_client *a);
void mpib_lane_free(struct mpib_lane *lane);

/* Control thread: registered, and in mr_made; the shard is not told. */
int mpib_mr_make(struct engine_client *a, const struct mpib_mr_attr *attr,
		 uint32_t handle, struct mpib_mr **made);
/* Shard: take one hold, drop one. */
static inline void mpib_mr_ref(struct mpib_mr *mr)
{
	mr->refs++;
}
void mpib_mr_unref(struct mpib_mr *mr);

struct engine_client {
	struct mpib_shard *shard;
	struct mpib_drr_class drr; /* of its tenant's */
	struct mpib_tenant *tenant;
	uint32_t id;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_mr **mr; /* by handle; shard */
	struct engine_conn *conn[MPIB_CONNS_MAX]; /* by index; shard */
	struct mpib_rail_counts
		closed[MPIB_RAILS]; /* of past connections; shard */
	uint64_t closed_messages;
	/* Control thread. */
	struct mpib_mr **mr_made;
	TAILQ_ENTRY(engine_client) link;
	struct mpib_msg msg;
};

struct mpib_lane_qp {
	struct mpib_lane *lane;
	struct ibv_qp *qp;
	uint32_t qpn; /* key */
	uint8_t rail;
	uint32_t psn;
	uint32_t posted, retired; /* WRs, modulo 2^24 as wr_id carries it */
	uint32_t asked; /* posted, as of the last signalled one */
	int refused; /* -errno of a post that was, until somebody looks */
	bool no_ece; /* not set, so not to be answered */
	bool promised; /* it has its places in the CQ; control thread */
	bool last; /* its last WR was posted */
	uint32_t cts_unsignaled; /* CTS since the last signalled one */
	struct mpib_wr_chain chain; /* of this turn */
	LIST_ENTRY(mpib_lane_qp) ring_link; /* with a chain */
	UT_hash_handle hh;
};

/* One rail's virtual QP, see spread.h. */
struct mpib_lane_spread {
	struct mpib_lane *lane;
	struct mpib_vqp *vqp; /* NULL: nothing is spread */
	uint8_t rail;
	uint8_t qp_of[2 * MPIB_QPS_MAX]; /* by port */
};

struct mpib_lane {
	struct mpib_shard *shard;
	struct mpib_tenant *tenant;
	uint8_t imm_version;
	uint8_t rails;
	uint8_t path; /* enum mpib_path */
	uint8_t traffic_class; /* 0: as configured */
	bool failover; /* both ends can */
	bool delivered; /* a send is over when the peer has it */
	uint8_t spread; /* enum mpib_spread */
	bool numbered; /* dqplb: QPs but the first carry fragments alone */
	uint32_t frag; /* bytes: a longer part of a rail may be spread */
	struct mpib_choice choice[MPIB_RAILS]; /* auto */
	uint32_t qps[MPIB_RAILS];
	uint32_t round[MPIB_RAILS]; /* of these: QPs that slots go by */
	struct mpib_lane_spread via[MPIB_RAILS];
	struct mpib_lane_qp qp[MPIB_RAILS][MPIB_QPS_MAX];
	uint32_t depth; /* send WRs per QP */
	char peer[MPIB_LABEL_MAX];
	bool connected; /* control thread: handed to the shard */
	uint8_t away; /* rails that it was made without; control thread, and
			 the shard once, when it gets it */
	struct mpib_lane_control ctl; /* control thread */
	TAILQ_ENTRY(mpib_lane) made_link; /* control thread */
	/* Shard. */
	bool broken;
	uint64_t since; /* when the shard got it */
	struct mpib_tracker track[MPIB_RAILS]; /* of send ops */
	struct mpib_adapt adapt;
	uint8_t all; /* the rails, as a mask */
	uint8_t held; /* rails whose QPs are the shard's */
	uint8_t open; /* of these: rails that may be posted to */
	uint8_t use; /* of these: rails that new traffic goes to */
	uint8_t drain; /* rails that an operator wants left alone */
	uint8_t stop_posted; /* rails that stopped; old writes may still land */
	uint32_t epoch[MPIB_RAILS];
	struct mpib_rail_stop stop[MPIB_RAILS];
	struct mpib_rail_watch watch[MPIB_RAILS];
	struct engine_conn_list conns;
	unsigned nconns;
	uint64_t full_turn; /* somebody waits for its room, in this turn */
	struct {
		uint64_t acked;
		uint32_t times;
	} looked[MPIB_RAILS]; /* window.c: whether it moves */
	TAILQ_ENTRY(mpib_lane) link;
	uint64_t messages;
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_call *kill;
	struct mpib_msg msg;
};

/*
 * wr_id: kind 4 | connection 20 | send op 16 | QP's posted count 24. Valid on error
 * completions too, where opcode is not.
 */
enum mpib_wr_kind {
	MPIB_WR_UNSIGNALED = 1, /* inside a chain, or an unsignalled CTS */
	MPIB_WR_OP, /* last of a chain: this rail's share of a send op */
	MPIB_WR_CTS,
	MPIB_WR_STOP, /* a stopping connection's last write */
	MPIB_WR_DRAIN, /* the last flush of a QP in ERR */
	MPIB_WR_REPLAY, /* last of what a fence lost; send op names stripes, too */
	MPIB_WR_PROBE, /* does the QP carry? */
	MPIB_WR_SPREAD, /* a fragment or notice, send op is its port; spread.h */
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

/* Beyond what room was asked for: the other rail's chain, and a replay. */
#define MPIB_WR_SPARE 128u

static inline uint32_t mpib_qp_outstanding(const struct mpib_lane_qp *q)
{
	return (q->posted - q->retired) & 0xffffff;
}

/* Requests that the QP itself takes, for a probe or the last one: these have a
 * place in the CQ. */
static inline uint32_t mpib_qp_sq_room(const struct mpib_lane_qp *q)
{
	uint32_t n = mpib_qp_outstanding(q);

	return n < q->lane->depth ? q->lane->depth - n : 0;
}

/* WRs that may be posted to the QP now, never more than its CQ can hold, nor
 * than the turn has left. */
static inline uint32_t mpib_qp_room(const struct mpib_lane_qp *q)
{
	const struct mpib_shard *s = q->lane->shard;
	uint32_t sq = mpib_qp_sq_room(q);
	uint32_t cq = mpib_budget_room(&s->rail[q->rail].budget);

	if (s->wrs.left < 2 * MPIB_WR_SPARE)
		return 0;
	return sq < cq ? sq : cq;
}

/*
 * doorbell.c: n WRs for the QP, copied, with one SGE at most; they go out in
 * order, with one doorbell a turn. wr[i].wr_id comes with kind, connection and send op
 * (mpib_wr_tag()); the count is added here. What cannot be posted then is in
 * q->refused.
 */
void mpib_qp_post(struct mpib_lane_qp *q, const struct ibv_send_wr *wr,
		  unsigned n);
/* The same for one that is signalled and stays with who took it. */
void mpib_qp_add(struct mpib_lane_qp *q, struct mpib_wr *w);
/* Now, rather than at the end of the turn. */
void mpib_qp_ring(struct mpib_lane_qp *q);
/* A write of nothing, for its answer: what it tells is that the QP carries, and
 * that the unsignalled ones before it are done. One that nothing else signalled
 * is ahead of has its place in the CQ, whatever others have taken. False: not
 * now. */
bool mpib_qp_probe(struct mpib_lane_qp *q);

static inline uint64_t mpib_wr_tag(enum mpib_wr_kind kind, uint32_t conn,
				   uint32_t op)
{
	return (uint64_t)kind << 60 | (uint64_t)conn << 40 | (uint64_t)op << 24;
}

/* window.c: the rail has all that it is given at once while order counts. */
bool mpib_window_full(struct mpib_shard *s, unsigned rail);

/* A completion came: what it retires. */
void mpib_qp_retire(struct mpib_lane_qp *q, uint64_t wr_id);

/* route.c: the way from the port of rail to remote's, for RTR. port is what the
 * port is now. Control thread. */
void mpib_route_fill(const struct mpib_lane *lane, const struct mpib_rail *rail,
		     const struct mpib_port_info *port,
		     const struct mpib_lane_rail_info *remote,
		     struct ibv_ah_attr *ah);

/* ece.c, control thread. What this end's QPs of a rail have, into info. */
void mpib_ece_offer(const struct mpib_lane *lane, unsigned rail,
		    struct mpib_lane_rail_info *info);
/* Before RTR: set what the other end said of its i-th QP. */
void mpib_ece_take(struct mpib_lane_qp *q,
		   const struct mpib_lane_rail_info *remote, unsigned i);

/* Shard, QPs in ERR: answer lane->kill when everything is flushed. */
void mpib_lane_drain(struct mpib_lane *lane);
void mpib_lane_check_drained(struct mpib_lane *lane);
/* Shard, QPs of the rail in ERR: a last WR each, so that its completion is the
 * last. */
void mpib_rail_post_last(struct mpib_lane *lane, unsigned rail);
bool mpib_rail_drained(const struct mpib_lane *lane, unsigned rail);

/* qps.c: control thread, for one rail. */
int mpib_lane_make_qps(struct mpib_lane *lane, unsigned rail, unsigned qps);
/*
 * Control thread. Rails that the shard has lost, rail/absent.h, and those of theirs,
 * that the other end has, are left out of a lane that is not connected. -ENETDOWN
 * and a last error where it cannot go without: no other rail, or no fail-over.
 */
int mpib_lane_leave_out(struct mpib_lane *lane, uint8_t theirs);
void mpib_lane_free_qps(struct mpib_lane *lane, unsigned rail);
void mpib_lane_rail_local(const struct mpib_lane *lane, unsigned rail,
			  struct mpib_lane_rail_info *out);
int mpib_lane_connect_rail(struct mpib_lane *lane, unsigned rail,
			   const struct mpib_lane_rail_info *remote);
void mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned rail);
/* Shard: completions of the rail's QPs find them, or no longer. */
void mpib_lane_hold_rail(struct mpib_lane *lane, unsigned rail);
void mpib_lane_drop_rail(struct mpib_lane *lane, unsigned rail);

#endif
