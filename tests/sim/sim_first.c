/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of 32 bits or fewer start at 0 in the real code, and no seed lasts
 * until they wrap. So the seed chooses a start value for each kind of counter,
 * in most cases shortly before a wrap. When a counter is made, it is set to the
 * start value of its kind. All counters of one kind start with the same value
 * in a seed, so both ends of a connection agree.
 */
#include "sim_first.h"

#include "engine/conn/conn.h"
#include "failover/fence.h"
#include "ipc/client.h"
#include "peer/internal.h"
#include "sim_node.h"
#include "sim_plan.h"
#include "sim_task.h"
#include "vqp/internal.h"

/* maximum number of steps of a connection's counter in one seed */
#define NEAR 1000

static struct {
	/* In the client library. `gen`: generation of a request. `ask`: id of a
	 * control request. `sweep`: window sweeps. `part`: parts of a window.
	 * `idle`: polls of a connection without a result. */
	uint32_t gen, ask, sweep, part, idle;
	/* Flushes of a connection, in the client and in the engine. */
	uint32_t flush;
	/* Per connection, in the engine. `range`: send ranges. `op`: send ops.
	 * `share`: ranges of send ops. `msg`: sequence numbers of receives, at
	 * both ends. */
	uint32_t range, op, share, msg;
	/* `wr`: WRs of a QP. `epoch`: epochs of a rail, at both ends. `grant`:
	 * quanta and sweeps of a DRR class. */
	uint32_t wr, epoch, grant;
	uint32_t number; /* numbers of fragments at both ends, 24 bits */
	uint32_t conn, mr; /* indices in tables */
	uint32_t id; /* ids of a broker's listeners, lanes and connections */
} first;

/* Draw a start value. Most start values are slightly below a wrap or a change
 * of sign, where code can go wrong. */
static uint32_t draw(struct sim_rng *r, unsigned bits)
{
	uint32_t most = bits < 32 ? (1u << bits) - 1 : UINT32_MAX;

	switch (sim_draw(r, 8)) {
	case 0:
		return 0;
	case 1:
		return (uint32_t)sim_rng_next(r) & most;
	case 2:
		return most / 2 + 1 - (uint32_t)sim_draw_wide(r, 1, NEAR);
	default:
		return most + 1 - (uint32_t)sim_draw_wide(r, 1, NEAR);
	}
}

void sim_first_seed(const struct sim_plan *plan)
{
	struct sim_rng r;

	if (plan->seed < SIM_WRAPS_FROM)
		return;
	sim_rng_seed(&r, plan->seed, "first");
	/* must be even, see struct mpib_index */
	first.gen = draw(&r, 32) & ~1u;
	first.ask = draw(&r, 32);
	first.sweep = draw(&r, 32);
	/* The counter that used this draw no longer exists. Make the draw
	 * anyway, so that each seed gives the other counters the same values as
	 * before. */
	draw(&r, 32);
	first.part = draw(&r, 32);
	first.idle = draw(&r, 32);
	first.flush = draw(&r, 32);
	first.range = draw(&r, 32);
	first.op = draw(&r, 32);
	first.share = draw(&r, 32);
	first.msg = draw(&r, 32);
	/* wr_id carries only 24 bits of this counter. */
	first.wr = draw(&r, sim_chance(&r, 4) ? 24 : 32);
	first.epoch = draw(&r, 32);
	first.grant = draw(&r, 32);
	first.number = draw(&r, 24) % MPIB_SEQ_MOD;
	first.conn = draw(&r, 32) % ENGINE_CONNS_MAX;
	first.mr = draw(&r, 32) % MPIB_MRS_MAX;
	first.id = draw(&r, 32);
	/* After a connection has resumed, the rank and the proxy start these
	 * counters at 0 again. So leave them at 0. */
	if (plan->resumes)
		first.flush = first.msg = 0;
}

void sim_first_client(struct mpib_client *c)
{
	c->next_id += first.ask;
	atomic_store(&c->sweeps, first.sweep);
	for (unsigned i = 0; i < MPIB_INDEXES_MAX; i++)
		c->at->index[i].gen = first.gen;
}

int __real_mpib_attach_once(struct mpib_client *c, uint64_t deadline,
			    struct mpib_attached **attached);
int __wrap_mpib_attach_once(struct mpib_client *c, uint64_t deadline,
			    struct mpib_attached **attached);

/* The client library calls this function when a rank attaches to the next
 * proxy. */
int __wrap_mpib_attach_once(struct mpib_client *c, uint64_t deadline,
			    struct mpib_attached **attached)
{
	int rc = __real_mpib_attach_once(c, deadline, attached);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < MPIB_INDEXES_MAX; i++)
		(*attached)->index[i].gen = first.gen;
	sim_node_resumes(sim_proc_self()->node);
	return 0;
}

void __real_mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
			    uint32_t index);
void __wrap_mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
			    uint32_t index);

static uint64_t resumed;

/* The client library calls this function when a connection is resumed. */
void __wrap_mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
			    uint32_t index)
{
	resumed++;
	__real_mpib_conn_enter(conn, at, index);
}

uint64_t sim_first_resumed(void)
{
	return resumed;
}

void sim_first_conn(struct mpib_conn *conn)
{
	struct mpib_window *w = &conn->window;

	conn->idle = first.idle;
	conn->flush.asked = first.flush;
	w->big.part_head = w->big.part_tail = first.part;
	w->small.part_head = w->small.part_tail = first.part;
}

uint32_t sim_first_msg(void)
{
	return first.msg;
}

int __real_engine_conn_create(struct engine_client *client, uint32_t index,
			      bool sender, struct mpib_lane *lane,
			      struct engine_conn **conn);
int __wrap_engine_conn_create(struct engine_client *client, uint32_t index,
			      bool sender, struct mpib_lane *lane,
			      struct engine_conn **conn);

int __wrap_engine_conn_create(struct engine_client *client, uint32_t index,
			      bool sender, struct mpib_lane *lane,
			      struct engine_conn **conn)
{
	int rc = __real_engine_conn_create(client, index, sender, lane, conn);
	struct mpib_receiver *rx;
	struct mpib_sender *tx;

	if (rc < 0)
		return rc;
	if (!sender) {
		rx = &(*conn)->rx;
		rx->msg = first.msg;
		rx->flush.taken = rx->flush.ended = first.flush;
		return rc;
	}
	tx = &(*conn)->tx;
	tx->range_head = tx->range_tail = tx->looked = first.range;
	tx->op_head = tx->op_tail = first.op;
	tx->op_range_head = tx->op_range_tail = first.share;
	tx->msg = first.msg;
	return rc;
}

void __real_engine_conn_start(struct engine_conn *conn,
			      const struct engine_conn_info *remote);
void __wrap_engine_conn_start(struct engine_conn *conn,
			      const struct engine_conn_info *remote);

/* The client's flush counter starts at `first.flush`. So store `first.flush` in
 * the reply segment, too, before the client learns that the connection is
 * ready. */
void __wrap_engine_conn_start(struct engine_conn *conn,
			      const struct engine_conn_info *remote)
{
	__real_engine_conn_start(conn, remote);
	atomic_store(&conn->reply->flushed, first.flush);
}

int __real_mpib_lane_make_qps(struct mpib_lane *lane, unsigned rail,
			      unsigned qps);
int __wrap_mpib_lane_make_qps(struct mpib_lane *lane, unsigned rail,
			      unsigned qps);

int __wrap_mpib_lane_make_qps(struct mpib_lane *lane, unsigned rail,
			      unsigned qps)
{
	int rc = __real_mpib_lane_make_qps(lane, rail, qps);

	for (unsigned i = 0; rc == 0 && i < qps; i++) {
		struct mpib_lane_qp *q = &lane->qp[rail][i];

		q->posted = q->retired = q->asked = first.wr;
	}
	return rc;
}

int __real_mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
			    enum mpib_path path,
			    const struct mpib_lane_info *want,
			    struct mpib_lane **lane);
int __wrap_mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
			    enum mpib_path path,
			    const struct mpib_lane_info *want,
			    struct mpib_lane **lane);

int __wrap_mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
			    enum mpib_path path,
			    const struct mpib_lane_info *want,
			    struct mpib_lane **lane)
{
	int rc = __real_mpib_lane_create(tenant, imm_version, path, want, lane);

	for (unsigned r = 0; rc == 0 && r < MPIB_RAILS; r++)
		(*lane)->epoch[r] = first.epoch;
	return rc;
}

void __real_mpib_fence_init(struct mpib_fence *f, bool healthy);
void __wrap_mpib_fence_init(struct mpib_fence *f, bool healthy);

void __wrap_mpib_fence_init(struct mpib_fence *f, bool healthy)
{
	__real_mpib_fence_init(f, healthy);
	f->epoch = first.epoch;
}

void __real_mpib_drr_init(struct mpib_drr_class *n,
			  struct mpib_drr_class *parent);
void __wrap_mpib_drr_init(struct mpib_drr_class *n,
			  struct mpib_drr_class *parent);

void __wrap_mpib_drr_init(struct mpib_drr_class *n,
			  struct mpib_drr_class *parent)
{
	__real_mpib_drr_init(n, parent);
	n->grants = n->left_at = n->sweep = first.grant;
}

static void start_numbers(struct mpib_vqp *vqp)
{
	vqp->seq = vqp->out.next = vqp->out.oldest = first.number;
	if (vqp->in)
		vqp->in->next = first.number;
}

int __real_mpib_vqp_create(struct mpib_vcq *vcq,
			   const struct mpib_vqp_attr *attr,
			   struct mpib_vqp **vqp);
int __wrap_mpib_vqp_create(struct mpib_vcq *vcq,
			   const struct mpib_vqp_attr *attr,
			   struct mpib_vqp **vqp);

int __wrap_mpib_vqp_create(struct mpib_vcq *vcq,
			   const struct mpib_vqp_attr *attr,
			   struct mpib_vqp **vqp)
{
	int rc = __real_mpib_vqp_create(vcq, attr, vqp);

	if (rc == 0)
		start_numbers(*vqp);
	return rc;
}

void __real_mpib_vqp_reset(struct mpib_vqp *vqp);
void __wrap_mpib_vqp_reset(struct mpib_vqp *vqp);

void __wrap_mpib_vqp_reset(struct mpib_vqp *vqp)
{
	__real_mpib_vqp_reset(vqp);
	start_numbers(vqp);
}

int __real_mpib_engine_open(const struct mpib_engine_config *cfg,
			    const struct mpib_engine_events *events, void *ctx,
			    struct mpib_engine **engine, char *why,
			    size_t why_len);
int __wrap_mpib_engine_open(const struct mpib_engine_config *cfg,
			    const struct mpib_engine_events *events, void *ctx,
			    struct mpib_engine **engine, char *why,
			    size_t why_len);

int __wrap_mpib_engine_open(const struct mpib_engine_config *cfg,
			    const struct mpib_engine_events *events, void *ctx,
			    struct mpib_engine **engine, char *why,
			    size_t why_len)
{
	int rc =
		__real_mpib_engine_open(cfg, events, ctx, engine, why, why_len);

	for (unsigned i = 0; rc == 0 && i < (*engine)->shards; i++)
		(*engine)->shard[i].conn_id_next = first.conn;
	return rc;
}

int __real_mpib_broker_open(const struct mpib_broker_opts *opts,
			    struct mpib_broker **broker, char *why,
			    size_t why_len);
int __wrap_mpib_broker_open(const struct mpib_broker_opts *opts,
			    struct mpib_broker **broker, char *why,
			    size_t why_len);

int __wrap_mpib_broker_open(const struct mpib_broker_opts *opts,
			    struct mpib_broker **broker, char *why,
			    size_t why_len)
{
	int rc = __real_mpib_broker_open(opts, broker, why, why_len);

	if (rc == 0)
		(*broker)->next_id = first.id;
	return rc;
}

int __real_engine_client_open(struct mpib_tenant *tenant, uint32_t id,
			      struct mpib_submit *submit,
			      struct mpib_reply *reply, int bell,
			      struct engine_client **client);
int __wrap_engine_client_open(struct mpib_tenant *tenant, uint32_t id,
			      struct mpib_submit *submit,
			      struct mpib_reply *reply, int bell,
			      struct engine_client **client);

int __wrap_engine_client_open(struct mpib_tenant *tenant, uint32_t id,
			      struct mpib_submit *submit,
			      struct mpib_reply *reply, int bell,
			      struct engine_client **client)
{
	int rc = __real_engine_client_open(tenant, id, submit, reply, bell,
					   client);

	if (rc == 0)
		(*client)->mr_given = first.mr;
	return rc;
}
