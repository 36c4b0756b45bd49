/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection, and declarations for the files of this folder. The shard thread
 * owns a connection from engine_conn_start() until the callback of
 * engine_conn_stop().
 *
 * Sending: descriptors become send ranges. The sender matches send ranges with
 * CTS in slot order and posts them as send ops. Each send op has one chain of
 * WRs per active rail. Receiving: descriptors become slots. One CTS announces a
 * slot, and one IMM per active rail ends the slot. Slot numbers never wrap.
 * Slot s uses entry s % MPIB_TABLE_SLOTS of the CTS table and of the record
 * table.
 */
#ifndef MPIB_ENGINE_CONN_H
#define MPIB_ENGINE_CONN_H

#include <mpib/ring.h>
#include <mpib/wire.h>
#include <stdatomic.h>

#include "engine/lane/lane.h"
#include "engine/measure/times.h"
#include "failover/stripes.h"

/* State of a connection: requests, and either the sending end's queue and send
 * ops or the receiving end's slots. */

#define SEND_RANGES 64
/* A bit in mpib_sender.ended: the client may already reuse bytes of the slot,
 * although the receiver's end-to-end ack has not come. If these bytes are lost
 * at a fence, they cannot be replayed. */
#define MPIB_ENDED_RELEASED (1u << 2 * MPIB_RAILS)

/* A request of the client, in either direction. */
struct engine_request {
	uint32_t gen; /* generation of the last request with this index */
	bool active;
	/* The request is in parts, or has MPIB_OP_AT_ONCE. In both cases the
	 * client reads the progress word. */
	bool multipart;
	bool posted; /* a part of the request was posted to a rail */
	bool report; /* MPIB_OP_REPORT */
	/* send: larger than its receive; the sender must tell the receiver */
	bool refused;
	uint8_t n;
	uint32_t msg; /* receive: message number in its CTS */
	uint32_t total; /* size of the send, or of the posted receive */
	uint32_t fed; /* bytes that descriptors have submitted so far */
	/* number of bytes complete from the start, without gaps */
	uint32_t done;
	uint64_t since; /* shard->now at the first descriptor */
	/* With a report only: number of chains in flight. The rest of the
	 * report is in the request's completion. */
	uint16_t chains[MPIB_RAILS];
};

struct send_range {
	uint8_t req;
	int32_t tag;
	struct mpib_mr *mr; /* NULL when len is 0 */
	uint64_t addr;
	uint32_t len, pos;
};

/* Maximum of send ops in flight. A request that is not staged needs one send op
 * and one range, and a connection has MPIB_REQUESTS requests. */
#define SEND_OPS MPIB_REQUESTS
#define SEND_OP_RANGES SEND_OPS

/* Source and destination of one request's bytes in a send op, kept for a
 * replay. */
struct op_range {
	struct mpib_mr *mr; /* NULL when len is 0 */
	uint64_t from;
	uint32_t at; /* offset from the address in the CTS */
	uint32_t len;
	uint32_t sup; /* SUP carries the first `sup` bytes, SOUT the rest */
	uint8_t req;
	uint8_t buf; /* index of the buffer in its group */
};

/* The WRs that a sender posted in one step: one chain per rail. */
struct send_op {
	struct mpib_stripes c; /* stripe k: the part first posted to rail k */
	uint8_t n; /* number of ranges in mpib_sender.op_range */
	bool report; /* one of its requests has a report */
	/* Free-running index of the first range, like op_range_head. */
	uint32_t first;
	struct mpib_stripe stripe[MPIB_RAILS];
	uint64_t slot;
	int64_t before; /* result of mpib_adapt_posted() */
};

/* The grouped receive that the sender is answering. */
struct mpib_group {
	uint8_t n; /* number of buffers; 0: no group is being answered */
	/* One bit per buffer. `matched`: the buffer has its send. `whole`: all
	 * bytes of that send are posted or held. `held`: the send is in `range`
	 * and waits for the group's last chain. */
	uint8_t matched, whole, held;
	uint8_t mask; /* rails on which bytes of the group were posted */
	bool refused; /* a send was larger than its buffer */
	/* request of the matched send, by buffer */
	uint8_t req[MPIB_GROUP_MAX];
	uint64_t rail[MPIB_RAILS]; /* bytes of the group posted so far */
	uint32_t size[MPIB_GROUP_MAX];
	struct send_range range[MPIB_GROUP_MAX];
	struct mpib_cts cts[MPIB_GROUP_MAX];
};

struct mpib_sender {
	struct send_range range[SEND_RANGES];
	uint32_t range_head, range_tail; /* free-running */
	struct send_op op[SEND_OPS];
	uint32_t op_head, op_tail;
	struct op_range op_range[SEND_OP_RANGES];
	uint32_t op_range_head, op_range_tail; /* free-running */
	uint32_t lost; /* number of send ops with stripes to replay */
	uint64_t cts_next; /* first slot that is not answered yet */
	/* The end-to-end acks of all CTS before this slot have been read. */
	uint64_t cts_seen;
	uint64_t acked; /* the largest end-to-end ack that the peer wrote */
	/* sender.c: no range before `looked` fits the receive whose first slot
	 * is `looked_for`. */
	uint64_t looked_for;
	uint32_t looked;
	uint32_t msg; /* number of the receive being answered */
	uint32_t pos; /* bytes of the message posted so far */
	uint8_t req; /* request of the message, if `pos` is not 0 */
	/* State of the slot being filled. */
	uint8_t mask; /* rails on which bytes were posted */
	uint8_t spread; /* rails with bytes on more than one QP */
	bool released; /* the client may already reuse bytes of the slot */
	uint64_t rail[MPIB_RAILS]; /* bytes posted */
	struct mpib_group group;
	/* Two bits show the stripes whose IMM was posted. Two bits show the
	 * rails on which these IMMs were posted. The last bit is
	 * MPIB_ENDED_RELEASED. Not valid for slots that are known to have
	 * ended. */
	uint8_t ended[MPIB_TABLE_SLOTS];
};

/* Flushes of a receiving connection. A flush reads a dma-buf region back
 * through every rail on which the connection may have received data. The client
 * is told when all READs have completed. */

#define MPIB_FLUSHES 32u /* maximum of concurrent flushes of a connection */

struct mpib_flush {
	/* a reference, held until all READs have completed */
	struct mpib_mr *mr;
	uint64_t addr;
	/* mpib_flushes.arrived when the flush started */
	uint64_t arrived[MPIB_RAILS];
	uint8_t unread; /* rails on which a READ must be posted */
	uint8_t reading; /* rails whose READ is in flight */
};

struct mpib_flushes {
	struct mpib_flush at[MPIB_FLUSHES];
	/* numbers of flushes, free-running; the client reads `ended` */
	uint32_t taken, ended;
	/* Time of the last data that arrived on the rail. A fence also sets
	 * this time, because writes without an IMM may have arrived before the
	 * fence. 0: no data and no fence yet. */
	uint64_t arrived[MPIB_RAILS];
	/* Ring descriptors before this index were checked for flushes. */
	uint64_t looked;
	uint32_t early; /* number of flushes accepted but still in the ring */
	bool queued; /* on shard->flushing */
	TAILQ_ENTRY(engine_conn) link;
};

enum mpib_slot_state {
	MPIB_SLOT_FREE,
	MPIB_SLOT_POSTED,
	MPIB_SLOT_MEMBER, /* a buffer of a group other than the first */
	MPIB_SLOT_ARRIVED,
	MPIB_SLOT_CANCELLED, /* the message ended in an earlier slot */
};

struct mpib_slot {
	uint8_t state; /* enum mpib_slot_state */
	uint8_t req;
	uint8_t n, idx;
	/* rails whose IMM must arrive; rails whose IMM has arrived */
	uint8_t expected, seen;
	/* IMM v1: the rounded size in the IMM that set `expected` */
	uint32_t size_q;
	uint64_t posted; /* time when the slot's CTS was posted */
	uint32_t pos, len;
	uint32_t rail[MPIB_RAILS]; /* byte_len of the IMMs */
	struct mpib_mr *mr;
};

/* Value of `acked` after a fence. All end-to-end acks may have been lost. */
#define MPIB_NOT_ACKED UINT64_MAX

struct mpib_receiver {
	uint64_t next; /* next slot to open */
	uint64_t cts_posted; /* all CTS before this one are posted */
	/* After a fence, the CTS from this slot up to cts_posted must be posted
	 * again. */
	uint64_t cts_again;
	uint64_t tail; /* oldest slot that has not ended */
	uint64_t freed; /* the peer has read all CTS before this one */
	/* `tail` in the last end-to-end ack, or MPIB_NOT_ACKED */
	uint64_t acked;
	uint64_t ack_since; /* time when `tail` moved beyond `acked` */
	uint32_t msg; /* number of the next receive */
	uint8_t group_got; /* number of descriptors of an unfinished group */
	struct mpib_desc group[MPIB_GROUP_MAX];
	struct mpib_flushes flush;
	struct mpib_slot slot[MPIB_TABLE_SLOTS];
};

/* The states of a connection on the shard thread. Only conn.c changes the
 * state. */
enum engine_conn_state {
	ENGINE_CONN_NEW, /* the shard does not know the connection yet */
	ENGINE_CONN_OPEN,
	ENGINE_CONN_BROKEN, /* accepts no new work */
	/* accepts no new work; engine_conn_stop() waits for WRs */
	ENGINE_CONN_STOPPING,
	ENGINE_CONN_STOPPED, /* has no WR in flight, or its lane is broken */
};

struct engine_conn {
	struct mpib_shard *shard;
	struct engine_client *client;
	struct mpib_lane *lane;
	uint32_t id, index;
	bool is_sender;
	uint8_t state; /* enum engine_conn_state */
	/* 0, or the -errno with which the connection broke or was stopped. */
	int error;
	/* See engine_conn_ended(). Relaxed, because a mailbox message orders
	 * the accesses. */
	_Atomic uint64_t ended;
	bool unmoved; /* see engine_conn_unmoved() */
	uint8_t home; /* preferred rail of CTS and of empty messages */
	/* number of the agent's hint, written by the control thread;
	 * UINT32_MAX: none */
	_Atomic uint32_t hint_slot;
	uint32_t hint; /* the hint that was read last */
	uint64_t hint_since; /* time when `hint` got this value */
	uint64_t since; /* time when the connection started on the shard */
	struct mpib_drr_class drr; /* child of the client's class */
	int8_t stopped_by; /* MPIB_DRR_*: why the last step posted nothing */
	/* on the tenant's list of rings; on the shard's list `cts` */
	bool on_submit, on_cts;
	bool parked; /* the ring waits for room and is not polled */
	bool on_ack; /* on shard->waiting (a sender) or shard->ack_pending */
	struct mpib_consumer ring;
	struct mpib_reply_conn *reply;
	struct mpib_completion *completion;
	_Atomic uint64_t *answer;
	struct mpib_tables tables;
	struct engine_conn_info remote;
	struct engine_request req[MPIB_REQUESTS];
	uint32_t outstanding; /* number of active requests */
	uint8_t stop_posted; /* rails with an MPIB_WR_STOP in flight */
	/* rails with unsignalled writes since the last MPIB_WR_STOP */
	uint8_t wrote;
	struct mpib_call *stop; /* completes when the state is STOPPED */
	TAILQ_ENTRY(engine_conn) lane_link, submit_link, cts_link, ack_link;
	struct mpib_msg msg;
	uint64_t messages;
	enum mpib_stall stall; /* what the connection is waiting for */
	uint64_t stall_since;
	uint64_t stalls[MPIB_STALLS], stall_ns[MPIB_STALLS];
	int32_t rank; /* the sending rank, from tags; -1: unknown */
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_times times; /* the control thread reads the times, too */
	TAILQ_ENTRY(engine_conn) times_link, client_link; /* control thread */
	/* The union is last, because only the member that `is_sender` selects
	 * is allocated. */
	union {
		struct mpib_sender tx;
		struct mpib_receiver rx;
	};
};

/* Return how many bytes of memory one end of a connection uses, without its
 * tables and its client's ring. */
size_t engine_conn_bytes(bool sender);
/* Shard. If the request is active and multipart, set its progress word to
 * `bytes`. */
void engine_conn_progress(struct engine_conn *f, unsigned req, uint32_t bytes);
/* Shard. Return the age of the oldest active request; 0: none. */
uint64_t engine_conn_oldest_ns(const struct engine_conn *f);
/* Return the error for a connection whose lane is gone. Any thread. */
static inline int mpib_conn_lost_error(const struct mpib_engine *e)
{
	return e->cfg.resume ? MPIB_BROKEN_LOST : -ECONNRESET;
}
/* Shard. Fail all requests, accept no more work, and tell the control
 * thread. */
void engine_conn_break(struct engine_conn *f, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static inline struct mpib_slot *mpib_slot_at(struct engine_conn *f,
					     uint64_t slot)
{
	return &f->rx.slot[slot % MPIB_TABLE_SLOTS];
}
static inline uint8_t *mpib_ended_at(struct engine_conn *f, uint64_t slot)
{
	return &f->tx.ended[slot % MPIB_TABLE_SLOTS];
}
/* Shard. Make the class of a sender active, because it has something to
 * post. */
static inline void engine_conn_make_ready(struct engine_conn *f)
{
	if (!f->drr.on)
		mpib_drr_wake(&f->drr);
}
/* submit.c, shard: poll the ring again in the next turns. */
void mpib_submit_remember(struct engine_conn *f);
/* Stop polling the ring until its bit in the summary is set. */
void mpib_submit_forget(struct engine_conn *f);
/* Shard. Poll a parked ring again, because there may be room for its
 * descriptors. */
static inline void mpib_submit_again(struct engine_conn *f)
{
	if (f->parked)
		mpib_submit_remember(f);
}
/* submit.c, shard: read descriptors from rings on the tenants' lists and from
 * rings in the clients' summaries. Return how much work was found. */
int mpib_submit_remembered(struct mpib_shard *s);
int mpib_submit_client(struct engine_client *a);
/* Shard. Read descriptors from rings that are not empty. Inline, because
 * usually all are empty. */
static inline int mpib_submit_poll(struct mpib_shard *s)
{
	struct engine_client *a;
	int taken = TAILQ_EMPTY(&s->submitting) ? 0 : mpib_submit_remembered(s);

	TAILQ_FOREACH(a, &s->clients, link)
	{
		if (mpib_summary_any(&a->submit->summary))
			taken += mpib_submit_client(a);
	}
	return taken;
}
/* Shard. If the connection is stopping and none of its WRs is in flight,
 * complete engine_conn_stop(). */
void engine_conn_check_stopped(struct engine_conn *f);
/* Shard. Return the QP of the rail that carries this slot number. */
static inline struct mpib_lane_qp *engine_conn_qp(struct engine_conn *f,
						  unsigned rail, uint64_t slot)
{
	return &f->lane->qp[rail][slot % f->lane->round[rail]];
}
/* Return the current rail for CTS and for empty messages. This is `home`, or
 * the other rail while `home` is closed to new traffic. */
static inline unsigned engine_conn_home(const struct engine_conn *f)
{
	return f->home ^ !(f->lane->use >> f->home & 1);
}
static inline struct mpib_lane_qp *engine_conn_cts_qp(struct engine_conn *f)
{
	return &f->lane->qp[engine_conn_home(f)][0];
}

/* stuck.c: add to `snap` the connection's requests that are older than
 * `older_ns`. */
void mpib_stuck_add(const struct engine_conn *f, uint64_t older_ns,
		    struct mpib_snapshot *snap);

/* times.c, control thread. mpib_times_watch() lists the connection, so that its
 * times can be read. Before a connection is freed, mpib_times_close() adds its
 * times to those of closed connections. */
void mpib_times_watch(struct engine_conn *f);
void mpib_times_close(struct engine_conn *f);

/* sender.c: post send ops; the mpib_drr_run_fn of a connection. */
int mpib_sender_run(struct engine_conn *f, struct mpib_drr_run *run);
/* Complete stripes of a send op: they were acknowledged (`ok`), or their lane
 * broke. */
void mpib_sender_completed(struct engine_conn *f, unsigned op, uint8_t stripes,
			   bool ok);
/* Like mpib_sender_completed(), for an acknowledged stripe that was first
 * posted to SOUT or to SUP. */
void mpib_sender_sout_acked(struct engine_conn *f, unsigned op);
void mpib_sender_sup_acked(struct engine_conn *f, unsigned op);
/* Retire the send ops that have ended, in the order in which they were posted.
 * Return their number. */
int mpib_sender_retire(struct engine_conn *f);
/* While the connection stops, end the sends that the receiver has
 * acknowledged. */
void mpib_sender_settle(struct engine_conn *f);
/* After the lane was killed, release the regions of send ops in flight. */
void mpib_sender_forget(struct engine_conn *f);
/* Return whether no send op is in flight. */
bool mpib_sender_idle(const struct engine_conn *f);

/* Return the send op with index `i`. Like op_head and op_tail, `i` is
 * free-running. */
static inline struct send_op *send_op_at(struct engine_conn *f, uint32_t i)
{
	return &f->tx.op[i % SEND_OPS];
}

/* Return range i of the send op. */
static inline struct op_range *
send_op_range(struct engine_conn *f, const struct send_op *p, unsigned i)
{
	return &f->tx.op_range[(p->first + i) % SEND_OP_RANGES];
}

/* Return whether there is room for another send op with this many ranges. */
static inline bool send_op_free(const struct engine_conn *f, unsigned ranges)
{
	return f->tx.op_range_head - f->tx.op_range_tail + ranges <=
	       SEND_OP_RANGES;
}

static inline struct send_range *mpib_sender_oldest(struct engine_conn *f)
{
	return &f->tx.range[f->tx.range_tail % SEND_RANGES];
}

static inline bool mpib_sender_has_work(const struct engine_conn *f)
{
	return f->tx.range_head != f->tx.range_tail;
}

/* Drop the oldest range. */
static inline void mpib_sender_advance(struct engine_conn *f)
{
	f->tx.range_tail++;
	mpib_submit_again(f);
}

/* sender.c */
/* A send op to post. */
struct mpib_step {
	const struct op_range *range; /* `n` ranges */
	unsigned n;
	const struct mpib_cts *cts; /* indexed by op_range.buf */
	uint32_t rail[MPIB_RAILS]; /* bytes on each rail */
	uint8_t stripes; /* rails that get a chain */
	/* rails whose chain ends the slot; 0: the slot continues */
	uint8_t imm;
	uint8_t spread; /* rails whose chain uses several QPs */
	bool apart; /* payload by WRITE, followed by an IMM without payload */
	const struct mpib_record *record; /* without its seq; NULL: none */
	struct mpib_lane_qp *q[MPIB_RAILS]; /* QP of each rail's chain */
};

static inline uint8_t mpib_rails_with_bytes(const uint32_t *rail)
{
	return (uint8_t)((rail[MPIB_RAIL_SOUT] > 0) << MPIB_RAIL_SOUT |
			 (rail[MPIB_RAIL_SUP] > 0) << MPIB_RAIL_SUP);
}

/* Return whether the step may be posted now, with a send op of this many
 * ranges. Fill in `spread` and `q`. If room is short, count a stall. */
bool mpib_step_may_post(struct engine_conn *f, unsigned ranges,
			struct mpib_step *s);
/* Post a step that mpib_step_may_post() allowed. The send op takes over the
 * ranges' references to regions. */
void mpib_step_make(struct engine_conn *f, const struct mpib_step *s);

/* Refuse a send that is larger than its receive, and drop its queued ranges.
 * The receive accepts at most `most` bytes. A send op tells the receiver. When
 * that send op ends, the send ends with -EMSGSIZE. */
void mpib_sender_refused(struct engine_conn *f, uint8_t req, uint32_t most);

/* Return whether the range fits the current receive. `tag` is the tag of the
 * receive's buffer; it is not used for a group. */
typedef bool mpib_fits_fn(const struct engine_conn *f,
			  const struct send_range *e, int32_t tag);
/* Move the first range that fits to the front of the queue. False: none fits
 * yet. */
bool mpib_match(struct engine_conn *f, mpib_fits_fn *fits, int32_t tag);
/* Return whether the last mpib_match() found that no queued range fits. */
bool mpib_match_none(const struct engine_conn *f);
/* Drop all send ranges that are not posted yet. */
void mpib_sender_drop(struct engine_conn *f);
/* Return whether an unposted send range lies in the region. */
bool mpib_sender_uses(const struct engine_conn *f, const struct mpib_mr *mr);

/* Return the size of the range's send. */
static inline uint32_t mpib_total_of(const struct engine_conn *f,
				     const struct send_range *e)
{
	return f->req[e->req].total;
}

/* Reading the CTS table, at the sending end. */

/* Return whether the fields of a CTS are consistent. A peer's proxy is not
 * trusted more than any other source of input. */
static inline bool mpib_cts_sane(const struct mpib_cts *c)
{
	return c->total <= MPIB_SIZE_MAX &&
	       (uint64_t)c->pos + c->len <= c->total &&
	       ((c->n | (uint32_t)c->idx << 16) == 1 ||
		(c->n >= 1 && c->n <= MPIB_GROUP_MAX && c->idx < c->n &&
		 c->len == c->total));
}

/* Copy the CTS of the slot. False: it has not arrived. */
static inline bool mpib_cts_copy(const struct engine_conn *f, uint64_t slot,
				 struct mpib_cts *cts)
{
	const struct mpib_cts *entry = f->tables.in;

	entry += slot % MPIB_TABLE_SLOTS;
	/* Acquire: the device writes seq last, after the rest of the entry. */
	if (__atomic_load_n(&entry->seq, __ATOMIC_ACQUIRE) != slot + 1)
		return false;
	*cts = *entry;
	/* Use exactly the copy that was checked: the peer can write the entry,
	 * so the compiler must not read it a second time. */
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

/* send_op.c: break the connection because of an invalid ack. */
void mpib_ack_bad(struct engine_conn *f);

/* Apply an ack: all slots below `ended` have ended at the receiver. False: a
 * correct receiver does not send this ack, and the connection is now broken. */
static inline bool mpib_ack_take(struct engine_conn *f, uint64_t ended)
{
	if (ended <= f->tx.acked)
		return true;
	/* The ack may be ahead of cts_next if the receiver cancelled slots of a
	 * message that ended early. */
	if (__builtin_expect(ended > f->tx.cts_next + MPIB_TABLE_SLOTS, 0)) {
		mpib_ack_bad(f);
		return false;
	}
	f->tx.acked = ended;
	return true;
}

/* Copy the CTS of the slot and apply its ack. False: the CTS has not arrived,
 * or the ack is invalid. */
static inline bool mpib_sender_cts(struct engine_conn *f, uint64_t slot,
				   struct mpib_cts *cts)
{
	return mpib_cts_copy(f, slot, cts) && mpib_ack_take(f, cts->ended);
}

/* split.c, for all policies. Return how many bytes of a send op SUP carries;
 * SOUT carries the rest. The send op has `len` bytes and starts at byte `pos`
 * of a message of `total` bytes. `planned` is NULL, or the bytes that each
 * rail's chain already carries. An agent's hint is read once per message, when
 * `pos` is 0. */
uint32_t mpib_split_both(struct engine_conn *conn, uint32_t total, uint32_t pos,
			 uint32_t len, const uint32_t *planned);
static inline uint32_t mpib_split(struct engine_conn *conn, uint32_t total,
				  uint32_t pos, uint32_t len,
				  const uint32_t *planned)
{
	return conn->lane->rails < MPIB_RAILS
		       ? 0
		       : mpib_split_both(conn, total, pos, len, planned);
}
/* Return the preferred rail for a lane's CTS and empty messages. Any thread. */
uint8_t mpib_policy_home(const struct mpib_lane *lane);
/* Fill in the current split and its source, for snapshots. */
void mpib_policy_why(struct engine_conn *conn, struct mpib_split_why *why);

/* replay.c: for one send op, post the stripes that a fence found to be lost.
 * Return the number of bytes posted, plus 1; 0: nothing can be posted now. */
uint64_t mpib_replay_step(struct engine_conn *f);
/* Drop all stripes that wait for a replay, because the connection has ended. */
void mpib_replay_drop(struct engine_conn *f);
/* group.c: return values as for mpib_replay_step(). */
uint64_t mpib_group_begin(struct engine_conn *f);
uint64_t mpib_group_step(struct engine_conn *f);
void mpib_group_drop(struct engine_conn *f);

/* send_op.c. Add the connection to a list of the shard, or remove it. The list
 * `waiting` has the senders whose send ops wait for an end-to-end ack. The list
 * `ack_pending` has the receivers that must write an end-to-end ack. */
void mpib_ack_enter(struct engine_conn *f);
void mpib_ack_leave(struct engine_conn *f);
/* Offset of the end-to-end acks in the CTS table. */
#define MPIB_ACK_AT (MPIB_TABLE_SLOTS * sizeof(struct mpib_cts))
/* send_op.c, sender: read the peer's end-to-end ack. Return the number of send
 * ops that the ack ended. */
int mpib_ack_read(struct engine_conn *f);
/* Receiver: write the end-to-end ack now. False: no room, or no open rail. */
bool mpib_ack_write(struct engine_conn *f);
/* Receiver: request an end-to-end ack, because `tail` has moved or the last ack
 * may be lost. */
static inline void mpib_ack_need(struct engine_conn *f)
{
	if (f->lane->delivered && f->rx.acked != f->rx.tail && !f->on_ack)
		mpib_ack_enter(f);
}

/* flush.c. Like mpib_receiver_take() and mpib_receiver_room(), for flushes. */
int mpib_flush_take(struct engine_conn *f, const struct mpib_desc *d);
static inline bool mpib_flush_room(const struct mpib_flushes *fl)
{
	return fl->taken - fl->ended < MPIB_FLUSHES;
}
/* Accept the next flush in the ring ahead of receives that wait for a slot. A
 * slot may become free only after the client has seen the end of the flush.
 * Return 0 if there is no flush or no room. Otherwise return the result of
 * mpib_flush_take(), and set *d to the flush's descriptor. */
int mpib_flush_early(struct engine_conn *f, struct mpib_desc *d);
/* Post the READs that are due. Return their number. */
int mpib_flush_turn(struct mpib_shard *s);
/* Handle the completion of a READ on the rail, for the flush with number `op`.
 * If `bad` is true, the READ would fail on any QP. */
void mpib_flush_read(struct engine_conn *f, unsigned rail, uint32_t op, bool ok,
		     bool bad);
/* End the READs on a rail whose device is lost. Data that the device has not
 * written yet will never arrive. */
void mpib_flush_lost(struct engine_conn *f, unsigned rail);
/* Post no more READs, because the connection accepts no new work. */
void mpib_flush_quit(struct engine_conn *f);
/* Return whether no READ is in flight. */
bool mpib_flush_idle(const struct engine_conn *f);
bool mpib_flush_uses(const struct engine_conn *f, const struct mpib_mr *mr);
/* Release all regions. No READ may be in flight. */
void mpib_flush_drop(struct engine_conn *f);

/* receiver.c. Accept a descriptor. Check mpib_receiver_room() first. 1:
 * accepted; -errno: an invalid descriptor. */
int mpib_receiver_take(struct engine_conn *f, const struct mpib_desc *d);
/* Return whether there are slots for the largest group. A slot is reused only
 * after the peer has read its CTS, so compare with `freed`, not with `tail`. */
static inline bool mpib_receiver_room(const struct engine_conn *f)
{
	return f->rx.next + MPIB_GROUP_MAX - f->rx.freed <= MPIB_TABLE_SLOTS &&
	       mpib_flush_room(&f->rx.flush);
}
/* Return whether a slot that has not ended lies in the region. */
bool mpib_receiver_uses(const struct engine_conn *f, const struct mpib_mr *mr);
/* Make mpib_sched_turn() post pending CTS or a last write. */
static inline void mpib_cts_due(struct engine_conn *f)
{
	if (f->on_cts)
		return;
	f->on_cts = true;
	TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
}
/* Post the pending CTS. Return their number. */
int mpib_receiver_post_cts(struct engine_conn *f);
/* Return how many successive CTS may be unsignalled on a QP with sq_depth send
 * WRs. */
uint32_t mpib_cts_quiet_most(uint32_t sq_depth);
/* Post an RDMA WRITE of `len` bytes from offset `off` of tables.out to the same
 * offset of the peer's tables.in. `q` must be the QP for CTS and have room.
 * Most of these WRITEs are unsignalled. */
void mpib_unsignaled_write(struct engine_conn *f, struct mpib_lane_qp *q,
			   uint64_t off, uint32_t len);
void mpib_receiver_arrived(struct engine_conn *f, unsigned rail, uint32_t qpn,
			   uint32_t imm, uint32_t byte_len);
/* Release the regions of all slots. Call this only when the peer can no longer
 * write. */
void mpib_receiver_drop(struct engine_conn *f);

#endif
