/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: one connection. Everything below belongs to the shard
 * between engine_conn_start() and engine_conn_stop()'s callback.
 *
 * Sending: descriptors become ranges (where bytes lie), ranges are matched
 * with CTS in order and posted as send ops; a send op is what one set of chained
 * posts carries, one chain per active rail.
 * Receiving: descriptors become slots; each slot is announced by one CTS and
 * ended by one IMM per active rail. Slots are numbered without end, slot
 * s % 256 is entry s of the tables.
 */
#ifndef MPIB_ENGINE_CONN_H
#define MPIB_ENGINE_CONN_H

#include <mpib/wire.h>

#include "engine/lane/lane.h"
#include "engine/measure/times.h"
#include "failover/stripes.h"

#define SEND_RANGES 64
#define SEND_OPS 256
/* Bytes of the slot were handed back before it ended: should they be lost, they
 * cannot be sent again. */
#define MPIB_ENDED_RELEASED (1u << 2 * MPIB_RAILS)

/* A request of the client, either direction. */
struct engine_request {
	uint32_t gen; /* of the last one, also when it is over */
	bool active;
	/* Progress is worth publishing: it comes in parts, or a send that began
	 * with a question, see ring.h. */
	bool multipart;
	bool posted; /* some of it was given to a rail */
	bool report; /* MPIB_OP_REPORT */
	uint8_t n;
	uint32_t msg; /* receive: its number on the wire */
	uint32_t total; /* size sent, or posted */
	uint32_t fed; /* bytes the client described so far */
	uint32_t done; /* bytes in order */
	uint64_t since; /* when its first descriptor came, see shard->now */
	/* With report only: what is told of the rails, and chains under way. */
	struct mpib_rail_report rail[MPIB_RAILS];
	uint16_t chains[MPIB_RAILS];
};

struct send_range {
	uint8_t req;
	int32_t tag;
	struct mpib_mr *mr; /* NULL when len is 0 */
	uint64_t addr;
	uint32_t len, pos, total;
};

/* Bytes of one request in a send op: where they lie and where they go, so that
 * they can be posted again. */
struct op_range {
	struct mpib_mr *mr; /* NULL when len is 0 */
	uint64_t from;
	uint32_t at; /* in the buffer of the CTS */
	uint32_t len;
	uint32_t sup; /* of these, in front: SUP's */
	uint8_t req;
	uint8_t buf; /* of the group */
};

struct send_op {
	struct mpib_stripes c; /* stripe k is what rail k was given */
	uint8_t n; /* shares */
	struct mpib_stripe stripe[MPIB_RAILS];
	uint64_t slot;
	struct op_range share[MPIB_GROUP_MAX];
};

/* A grouped receive being answered. */
struct mpib_group {
	uint8_t n; /* 0: none */
	/* A bit per buffer: it has its send; all of that is held or posted; ext
	 * waits for the final chain. */
	uint8_t matched, whole, held;
	uint8_t mask; /* rails that carried something already */
	bool stale; /* cts are of before the peer moved */
	uint8_t req[MPIB_GROUP_MAX]; /* the send that it has */
	uint32_t rail[MPIB_RAILS]; /* what they carried */
	uint32_t size[MPIB_GROUP_MAX];
	struct send_range ext[MPIB_GROUP_MAX];
	struct mpib_cts cts[MPIB_GROUP_MAX];
};

struct mpib_sender {
	struct send_range ext[SEND_RANGES];
	uint32_t ext_head, ext_tail; /* free-running */
	struct send_op op[SEND_OPS];
	uint32_t op_head, op_tail;
	uint32_t lost; /* send ops with stripes to be posted again */
	/* By slot, of those that may not have ended: stripes whose IMM was
	 * posted, 2 bits, then the rail that carries each, a bit a stripe, then
	 * MPIB_ENDED_RELEASED. */
	uint8_t ended[MPIB_SLOTS];
	uint64_t cts_next; /* slot number awaited */
	uint64_t cts_seen; /* CTS before this one were looked at for a word */
	uint64_t acked; /* the largest end-to-end ack that the peer wrote */
	uint64_t looked_for; /* the receive, by its first slot, that does not */
	uint32_t looked; /* take ranges before this one, see match.c */
	uint32_t msg; /* receive being answered */
	uint32_t pos; /* bytes of the message posted */
	uint8_t req; /* whose that is, while it is under way */
	/* Of the part being filled. */
	uint8_t mask;
	uint8_t spread; /* rails with some of it on more than one QP */
	bool released; /* the client has some of it back */
	bool promised; /* req has its receive, and no byte of it is posted */
	uint32_t rail[MPIB_RAILS];
	struct mpib_group group;
	bool moved; /* the peer announces anew what it announced before */
};

enum mpib_slot_state {
	MPIB_SLOT_FREE,
	MPIB_SLOT_POSTED,
	MPIB_SLOT_MEMBER, /* of the group whose first slot is before it */
	MPIB_SLOT_ARRIVED,
	MPIB_SLOT_CANCELLED, /* its message ended earlier */
};

struct mpib_slot {
	uint8_t state; /* enum mpib_slot_state */
	uint8_t req;
	uint8_t n, idx;
	uint8_t expected, seen; /* rails */
	uint32_t size_q; /* v1: learnt with expected */
	uint64_t posted; /* when its CTS was */
	uint32_t pos, len;
	uint32_t rail[MPIB_RAILS]; /* byte_len of the IMMs */
	struct mpib_mr *mr;
};

/* The peer may know of nothing: a fence lost what was under way. */
#define MPIB_NOT_ACKED UINT64_MAX

struct mpib_receiver {
	struct mpib_slot slot[MPIB_SLOTS];
	uint64_t next; /* next slot to hand out */
	uint64_t cts_posted; /* CTS before this one are posted */
	uint64_t cts_again; /* from here to there, again: a fence lost them */
	uint64_t forgotten; /* the peer was told to forget the CTS before this
			       one, when we moved */
	uint64_t tail; /* oldest slot not dealt with */
	uint64_t freed; /* the peer has read the CTS before this one */
	uint64_t acked; /* tail, as the peer was told; MPIB_NOT_ACKED */
	uint64_t ack_since; /* when it became more than that */
	uint32_t msg; /* receives begun */
	uint8_t group_got; /* descriptors of an unfinished group */
	struct mpib_desc group[MPIB_GROUP_MAX];
};

struct engine_conn {
	struct mpib_shard *shard;
	struct engine_client *client;
	struct mpib_lane *lane;
	uint32_t id, index;
	bool is_sender;
	bool started, stopping, stopped;
	int broken; /* 0 or -errno */
	uint8_t home; /* rail of CTS and of empty messages */
	_Atomic uint32_t hint_slot; /* control thread; UINT32_MAX: none */
	uint32_t hint; /* as last read */
	uint64_t hint_since; /* when it became so */
	uint64_t since; /* when the shard got it */
	struct mpib_drr_class drr; /* of its client's */
	int8_t stopped_by; /* of MPIB_DRR_*, just now */
	bool on_submit, on_cts;
	bool on_ack; /* of its shard's waiting (sender) or ack_pending */
	struct mpib_consumer ring;
	struct mpib_reply_conn *reply;
	struct mpib_completion *completion;
	struct mpib_tables tables;
	struct engine_conn_info remote;
	struct engine_request req[MPIB_REQUESTS];
	uint32_t outstanding; /* requests */
	uint8_t stop_posted; /* rails with a MPIB_WR_STOP under way */
	uint8_t wrote; /* rails: something that no completion will tell of */
	struct mpib_call_list stops;
	TAILQ_ENTRY(engine_conn) lane_link, submit_link, cts_link, ack_link;
	struct mpib_msg msg;
	uint64_t messages;
	enum mpib_stall stall; /* what it waits for now */
	uint64_t stall_since;
	uint64_t stalls[MPIB_STALLS], stall_ns[MPIB_STALLS];
	int32_t local_rank, remote_rank;
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_times times; /* the control thread reads them, too */
	TAILQ_ENTRY(engine_conn) times_link; /* control thread */
	/* Last, and by role: there is no more memory than that needs. */
	union {
		struct mpib_sender tx;
		struct mpib_receiver rx;
	};
};

/* Shard. The request is over; sizes may be NULL. */
void engine_conn_finish(struct engine_conn *f, unsigned req, int32_t result,
			const uint32_t *sizes, unsigned n);
void engine_conn_progress(struct engine_conn *f, unsigned req, uint32_t bytes);
/* Shard. Age of the oldest request, 0 if there is none. */
uint64_t engine_conn_oldest_ns(const struct engine_conn *f);
/* Shard. The connection takes no more work; control is told once. */
void engine_conn_break(struct engine_conn *f, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Shard. A sender has something to post. */
static inline void engine_conn_make_ready(struct engine_conn *f)
{
	if (!f->drr.on)
		mpib_drr_wake(&f->drr);
}
/* Shard. Look whether a stop can be answered. */
void engine_conn_check_stopped(struct engine_conn *f);
/* Shard. The QP of this connection's slot number on a rail. */
static inline struct mpib_lane_qp *engine_conn_qp(struct engine_conn *f,
						  unsigned rail, uint64_t slot)
{
	return &f->lane->qp[rail][slot % f->lane->round[rail]];
}
/* The rail of CTS and of empty messages: home, or the other one while home is
 * not in use. */
static inline unsigned engine_conn_home(const struct engine_conn *f)
{
	return f->home ^ !(f->lane->use >> f->home & 1);
}
static inline struct mpib_lane_qp *engine_conn_cts_qp(struct engine_conn *f)
{
	return &f->lane->qp[engine_conn_home(f)][0];
}

/* Shard. Check a descriptor's place in its region and hold that: *mr stays
 * NULL for an empty part. */
int engine_conn_hold(struct engine_conn *f, const struct mpib_desc *d,
		     struct mpib_mr **mr, uint64_t *addr);
/* Shard. Begin or continue the request of a descriptor. -EINVAL when it does
 * not follow what came before. */
int engine_conn_feed(struct engine_conn *f, const struct mpib_desc *d);

/* Control thread, its shard halted: as engine_conn_create() and
 * engine_conn_start(), with a given id. */
int engine_conn_restore(struct engine_client *client, uint32_t index,
			bool sender, struct mpib_lane *lane, uint32_t id,
			const struct engine_conn_info *remote,
			struct engine_conn **conn);

/* stuck.c: the connection's requests that are older, when it was just added. */
void mpib_stuck_add(const struct engine_conn *f, uint64_t older_ns,
		    struct mpib_snapshot *snap);

/* times.c, control thread: have the connection's times read, and keep what it had. */
void mpib_times_watch(struct engine_conn *f);
void mpib_times_close(struct engine_conn *f);

/* sender.c */
/* 1: taken; -errno: the descriptor is bad. Only when there is room. */
int mpib_sender_take(struct engine_conn *f, const struct mpib_desc *d);
bool mpib_sender_room(const struct engine_conn *f);
bool mpib_sender_has_work(const struct engine_conn *f);
/* Post at most one send op: bytes posted + 1, or 0 when nothing can go now. */
uint64_t mpib_sender_step(struct engine_conn *f);
/* Stripes of a send op are placed, or the lane is broken (not ok). */
void mpib_sender_completed(struct engine_conn *f, unsigned op, uint8_t stripes,
			   bool ok);
/* Send ops that are over, in the order posted; how many. */
int mpib_sender_retire(struct engine_conn *f);
/* Forget what is not posted. */
void mpib_sender_drop(struct engine_conn *f);
/* The lane was killed: send ops in flight hold nothing any more. */
void mpib_sender_forget(struct engine_conn *f);
/* No send op is in flight. */
bool mpib_sender_idle(const struct engine_conn *f);
bool mpib_sender_uses(const struct engine_conn *f, const struct mpib_mr *mr);

/* Send ops are counted without end. */
static inline struct send_op *send_op_at(struct engine_conn *f, uint32_t i)
{
	return &f->tx.op[i % SEND_OPS];
}

static inline struct send_range *mpib_sender_oldest(struct engine_conn *f)
{
	return &f->tx.ext[f->tx.ext_tail % SEND_RANGES];
}

/* match.c */
/* The range goes into a buffer of the receive being answered; of a receive
 * with one buffer, tag is that buffer's. */
typedef bool mpib_fits_fn(const struct engine_conn *f,
			  const struct send_range *e, int32_t tag);
/* Have the first that fits in front. False: none does, yet. */
bool mpib_match(struct engine_conn *f, mpib_fits_fn *fits, int32_t tag);
/* None that is queued fits, as was just found. */
bool mpib_match_none(const struct engine_conn *f);
/* Drop what is queued of a request, which may lie among what others have. The
 * receive being answered is over. */
void mpib_match_forget(struct engine_conn *f, uint8_t req);

/* The send has no bytes yet: its client waits for its receive. */
static inline bool mpib_is_question(const struct send_range *e)
{
	return e->len == 0 && e->total > 0;
}

/* sender.c and send_op.c, for group.c */
struct mpib_chain;
bool mpib_sender_cts(struct engine_conn *f, uint64_t slot,
		     struct mpib_cts *cts);
bool mpib_sender_may_post(struct engine_conn *f, uint8_t mask, uint8_t spread,
			  unsigned wrs, const uint32_t *bytes);
struct mpib_record *mpib_sender_record(struct engine_conn *f);
uint32_t mpib_sender_imm(struct engine_conn *f, unsigned rail, uint8_t mask,
			 bool record, uint32_t bytes);
/* One send op, of n shares; imm: rails whose chain ends the slot; spread: rails
 * whose chain goes by more than one QP. */
void mpib_sender_post(struct engine_conn *f, struct mpib_chain *chain,
		      const struct op_range *share, unsigned n, uint8_t imm,
		      uint8_t spread);
void mpib_sender_pop(struct engine_conn *f);
/* The peer's words, checked. */
bool mpib_cts_sane(const struct mpib_cts *c);

/*
 * policy.c. The only policy entry: SUP's share of len bytes at pos of a message
 * of total bytes, in parts per 1024, more meaning all. An agent's hint is read
 * once a message, when pos is 0. Bounded.
 */
uint32_t mpib_get_sup_bw(struct engine_conn *conn, uint32_t total, uint32_t pos,
			 uint32_t len);
/* Bytes of each rail for a send op, by the policy of now; arguments as above. */
void mpib_split(struct engine_conn *conn, uint32_t total, uint32_t pos,
		uint32_t len, uint32_t *rail);
/* The rail of a lane's CTS and empty messages. Any thread. */
uint8_t mpib_policy_home(const struct mpib_lane *lane);
/* The split in force. */
void mpib_policy_why(struct engine_conn *conn, struct mpib_split_why *why);

/* replay.c: as mpib_sender_step(), for what a fence lost. */
uint64_t mpib_replay_step(struct engine_conn *f);
/* The connection is over: nothing is posted again. */
void mpib_replay_drop(struct engine_conn *f);
/* An IMM with mask 0. False: it cannot be one of ours. */
bool mpib_replay_arrived(struct engine_conn *f, unsigned rail, uint32_t qpn,
			 uint32_t imm);

/* group.c */
uint64_t mpib_group_begin(struct engine_conn *f, const struct mpib_cts *first);
uint64_t mpib_group_step(struct engine_conn *f);
void mpib_group_drop(struct engine_conn *f);

/* ack.c. A sender with send ops that were acknowledged, or a receiver whose
 * word is to be told: until it is done, turns look after it. */
void mpib_ack_enter(struct engine_conn *f);
void mpib_ack_leave(struct engine_conn *f);
/* A sender: take the word that the peer wrote; how many send ops it ended. */
int mpib_ack_read(struct engine_conn *f);
/* A receiver: write the word now. False: no room, or no rail. */
bool mpib_ack_write(struct engine_conn *f);
/* A receiver: the word has to be told, or told again. */
static inline void mpib_ack_need(struct engine_conn *f)
{
	if (f->lane->delivered && f->rx.acked != f->rx.tail && !f->on_ack)
		mpib_ack_enter(f);
}

/* receiver.c */
/* As mpib_sender_take(). */
int mpib_receiver_take(struct engine_conn *f, const struct mpib_desc *d);
bool mpib_receiver_room(const struct engine_conn *f);
bool mpib_receiver_uses(const struct engine_conn *f, const struct mpib_mr *mr);
/* cts.c: fill the entry of the next slot. */
void mpib_cts_write(struct engine_conn *f, const struct mpib_desc *d,
		    const struct mpib_mr *mr, uint64_t addr);
/* Post CTS that wait; how many. */
int mpib_receiver_post_cts(struct engine_conn *f);
/* len bytes at off of the table out to the peer's in, by the QP of CTS, which
 * has room. Mostly unsignalled. */
void mpib_unsignaled_write(struct engine_conn *f, uint64_t off, uint32_t len);
void mpib_receiver_arrived(struct engine_conn *f, unsigned rail, uint32_t qpn,
			   uint32_t imm, uint32_t byte_len);
/* All its stripes are seen. */
void mpib_receiver_whole(struct engine_conn *f, struct mpib_slot *s);
bool mpib_receiver_record(struct engine_conn *f, uint64_t slot,
			  struct mpib_record *rec);
/* The peer can write no more: drop the slots' holds. */
void mpib_receiver_drop(struct engine_conn *f);

#endif
