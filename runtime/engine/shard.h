/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: the shard and its rails. What a shard owns is touched by
 * its thread alone; a comment says where the control thread may look.
 */
#ifndef MPIB_ENGINE_SHARD_H
#define MPIB_ENGINE_SHARD_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/mailbox.h"
#include "base/memseg.h"
#include "engine/engine.h"
#include "engine/lane/drr.h"
#include "engine/measure/snapshot.h"
#include "engine/measure/times.h"
#include "engine/pace.h"
#include "engine/rail/budget.h"
#include "vqp/vqp.h"

/* Connections of one shard: 20 bits on the wire, fewer in memory. */
#define ENGINE_CONNS_MAX 65536u
#define MPIB_MRS_MAX 4096u
#define MPIB_INLINE_MAX 256u

struct mpib_lane_qp;

#define MPIB_RECENT_QPS 64u

/* One rail as one shard has it: a context of its own. */
struct mpib_rail {
	const struct mpib_verbs *verbs;
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool lost; /* tells nothing any more, see lost.c; the shard's */
	bool dead; /* the same, control thread's */
	struct mpib_port_info port; /* limits as of start; the addresses are
				       the control thread's, last seen */
	uint8_t port_num;
	bool down; /* as mpib_shard_rail_state() was told */
	struct mpib_budget budget; /* of its CQ */
	uint64_t inflight; /* bytes of all lanes */
	/* window.c: of these, on lanes that do not move, and when that was
	 * looked up. */
	uint64_t parked, parked_ns;
	bool up; /* the port's state, by events; control thread */
	struct mpib_lane_qp *qps; /* by number */
	/* Of these, what a completion named last, by the number's low bits. */
	struct mpib_lane_qp *recent[MPIB_RECENT_QPS];
	struct mpib_snap_rail n;
};

TAILQ_HEAD(engine_conn_list, engine_conn);
TAILQ_HEAD(mpib_lane_list, mpib_lane);
TAILQ_HEAD(engine_client_list, engine_client);
TAILQ_HEAD(mpib_tenant_list, mpib_tenant);

struct mpib_shard {
	struct mpib_engine *engine;
	unsigned index;
	pthread_t thread;
	struct mpib_mailbox mailbox;
	struct mpib_status_shard *status;
	int doorbell; /* eventfd, clients write it */
	int epfd; /* what wakes us */
	_Atomic bool stop;
	struct mpib_rail rail[MPIB_RAILS];
	struct engine_conn **conn; /* by id, NULL where none is started */
	struct engine_client_list clients;
	struct mpib_tenant_list tenants;
	struct mpib_lane_list lanes; /* connected */
	struct mpib_drr_class drrs; /* whose turn it is; turn/sched.c */
	bool contended; /* in this turn order counts */
	uint8_t full; /* rails for whose room somebody waits in it */
	uint64_t drr_wake_ns; /* a limit lets somebody go on then */
	struct engine_conn_list submitting; /* rings known not to be empty */
	struct engine_conn_list cts; /* receivers with CTS to post */
	struct engine_conn_list waiting; /* senders, for a end-to-end ack */
	struct engine_conn_list ack_pending; /* receivers, one */
	bool settling; /* about to sleep: words do not wait */
	struct mpib_wr_pool wrs;
	struct mpib_wr_pool
		frags; /* of these, those that stay until answered */
	struct mpib_vcq *vcq; /* what lanes spread; NULL: none does */
	LIST_HEAD(, mpib_lane_qp) dirty; /* QPs with something to post */
	bool refused; /* some QP did not take it */
	struct mpib_snap_shard n;
	bool busy; /* the last turn moved something */
	uint64_t now; /* when this turn began, ns */
	uint32_t ar_above; /* longer send ops: payload by WRITE, then the IMM */
	struct mpib_pace pace;
	unsigned data_rail; /* that a message was last posted to */
	uint32_t watch_turns; /* since the watchdog looked */
	uint64_t watched_ns; /* when that was */
	bool watching; /* something was outstanding then */
	/* Control thread: which connection ids are taken, and counts for snapshot
	 * buffers. */
	uint64_t *conn_ids;
	unsigned conns_made, lanes_made, attachments_made;
	struct engine_conn_list timed; /* whose times are read */
	struct mpib_hist_counts closed_times[2][MPIB_TIMES]; /* by is_sender */
};

struct mpib_lane;
TAILQ_HEAD(mpib_made_list, mpib_lane);

struct mpib_engine {
	struct mpib_engine_config cfg;
	const struct mpib_engine_events *events;
	void *ctx;
	struct mpib_mailbox mailbox; /* to the control thread */
	int epfd;
	struct mpib_memseg status_seg;
	struct mpib_status *status;
	bool dmabuf;
	int last_error_rc; /* 0: none that is not told; control thread */
	char last_error[256];
	bool rail_up[MPIB_RAILS];
	bool leaving; /* see handover/handover.h; control thread */
	bool closing; /* what is left is freed at once; control thread */
	const struct mpib_hint_shm *hints; /* of an agent, or NULL */
	_Atomic unsigned drained; /* bit per rail, see tune.c */
	struct mpib_tenant *tenants; /* control thread */
	struct mpib_made_list lanes; /* connected; control thread */
	int timer; /* timerfd of hold-downs and graces */
	unsigned shards, running;
	struct mpib_shard shard[];
};

/* A copy of a call for the shard with a callback for the control thread.
 * Freed after the callback. */
struct mpib_call {
	struct mpib_msg msg;
	void *what;
	int status;
	mpib_done_fn *done;
	void *arg;
	TAILQ_ENTRY(mpib_call) link;
};
TAILQ_HEAD(mpib_call_list, mpib_call);

/* Control thread. Aborts when there is no memory: a hundred bytes. */
struct mpib_call *mpib_call_new(void *what, mpib_done_fn *done, void *arg);
/* Shard thread: run done(arg, status) over there. */
void mpib_call_done(struct mpib_shard *s, struct mpib_call *call, int status);

/* engine.c: as mpib_engine_open(), but no shard thread runs: the caller drives
 * mpib_shard_turn(). */
int mpib_engine_open_idle(const struct mpib_engine_config *cfg,
			  const struct mpib_engine_events *events, void *ctx,
			  struct mpib_engine **engine, char *why,
			  size_t why_len);

/* shard.c */
int mpib_shard_init(struct mpib_shard *s, struct mpib_engine *e, unsigned index,
		    char *why, size_t why_len);
int mpib_shard_start(struct mpib_shard *s);
void mpib_shard_join(struct mpib_shard *s);
void mpib_shard_fini(struct mpib_shard *s);
/* One bounded round of everything; how much moved. Shard thread, or a test
 * that drives turns by hand. */
int mpib_shard_turn(struct mpib_shard *s);

/* rail.c: control thread, before the shard runs and after it was joined. */
int mpib_rail_open(struct mpib_rail *rail, const struct mpib_rail_spec *spec,
		   uint32_t cqe, char *why, size_t why_len);
void mpib_rail_close(struct mpib_rail *rail);

/* last_error.c: passes rc on; of a failure mpib_engine_last_error() tells then.
 * Control thread. */
int mpib_last_error(struct mpib_engine *e, unsigned rail, const char *call,
		    int rc);
/* The CQ of the rail has no place for what is to be made: -ENOSPC. */
int mpib_last_error_crowded(const struct mpib_shard *s, unsigned rail,
			    const char *what);
/* Of what was no verbs call. Returns rc. */
int mpib_last_error_set(struct mpib_engine *e, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* probe.c: whether the opened rails fit together and can do what the engine
 * wants of them; fills in max_inline, e->dmabuf and ar_above. Control thread, before the
 * shards run. -errno and why. */
int mpib_engine_probe(struct mpib_engine *e, char *why, size_t why_len);

/*
 * async.c: the one place where a shard learns that a rail of its own failed or
 * came back; what follows from that is done here. Shard thread, between two
 * turns' work. The calls come in the order of the events: down on PORT_ERR,
 * DEVICE_FATAL and CQ_ERR, up on PORT_ACTIVE. A changed address (GID_CHANGE,
 * LID_CHANGE) is one call down and one up: QPs made before have the old one in
 * their packets. A rail may be told the state it is in. QPs are left alone by
 * the device: those of a port that is down keep retrying until their timeout.
 * why is for the log.
 */
void mpib_shard_rail_state(struct mpib_shard *s, unsigned rail, bool up,
			   const char *why);
/* async.c: take what the shard's devices have to tell. Control thread; never
 * waits. */
void mpib_async_turn(struct mpib_shard *s);

/*
 * measure/sums.c: whether what is owed to CQs, lanes and regions is what their
 * owners have; else false, and the first that is not. The shard rests: it is
 * halted, or between two turns that a test drives.
 */
struct mpib_sum {
	const char *what;
	uint64_t owed, have;
};
bool mpib_shard_sums(const struct mpib_shard *s, struct mpib_sum *wrong);

/* turn/cq.c: bounded poll of both rails; how many completions. */
int mpib_cq_turn(struct mpib_shard *s);
/* Parts that were spread and are whole, to their senders; how many. With
 * s->vcq. */
int mpib_cq_whole_turn(struct mpib_shard *s);
/* Until both are empty, or a bound is met. */
void mpib_cq_drain(struct mpib_shard *s);

/* turn/submit.c: descriptors out of the rings that have work. */
int mpib_submit_poll(struct mpib_shard *s);

/* conn/ack.c: words that are due; then words that came. */
int mpib_ack_write_turn(struct mpib_shard *s);
int mpib_ack_read_turn(struct mpib_shard *s);

/* turn/sched.c: post what connections have to send, by their DRR classes. */
int mpib_sched_turn(struct mpib_shard *s);
/* Milliseconds that may be slept, of most, before a limit lets somebody go
 * on. */
int mpib_sched_sleep_ms(const struct mpib_shard *s, int most);

#endif
