/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the engine: the engine, its shards and their rails. Only the
 * shard's thread accesses a shard's fields, except for fields whose comment
 * says "control thread". */
#ifndef MPIB_ENGINE_SHARD_H
#define MPIB_ENGINE_SHARD_H

#include <mpib/vqp.h>
#include <pthread.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/memseg.h"
#include "engine/engine.h"
#include "engine/lane/drr.h"
#include "engine/mailbox.h"
#include "engine/measure/snapshot.h"
#include "engine/measure/times.h"
#include "engine/pace.h"
#include "engine/rail/budget.h"
#include "engine/split/adapt.h"
#include "engine/sum.h"

/* Limit of connections per shard. The IMM has 20 bits for a connection number,
 * but a lower limit saves memory. */
#define ENGINE_CONNS_MAX 262144u /* 65536 per user by default */
#define MPIB_MRS_MAX 4096u
#define MPIB_INLINE_MAX 256u

struct mpib_lane_qp;

#define MPIB_RECENT_QPS 64u

/* A rail of one shard. Each shard has its own device context. */
struct mpib_rail {
	const struct mpib_verbs *verbs;
	/* NULL if the device was not available at the start. Then the rail is
	 * away and has neither a channel nor a CQ. */
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	/* The device failed for good (recovery/stop.c). The control thread uses
	 * `dead`, which is set immediately. The shard thread uses `lost`, which
	 * a mailbox message sets. Even if `dead` is false, the rail's port may
	 * be down, see `up`. */
	bool lost, dead;
	const char *why; /* control thread: why the rail is dead */
	/* The limits were read at the start. The control thread updates the
	 * state, the speed, the MTU and the addresses. State IBV_PORT_NOP: the
	 * device is gone. */
	struct mpib_port_info port;
	uint8_t port_num;
	struct mpib_budget budget; /* of the CQ */
	struct mpib_track_sum bytes; /* sums over all lanes */
	/* Bytes in flight on lanes that make no progress, and the time when
	 * sender.c last computed them. */
	uint64_t parked, parked_ns;
	bool up; /* the port's state after its last event; control thread */
	/* how often the port went down; not in `n`, because the control thread
	 * counts it */
	uint32_t downs;
	struct mpib_lane_qp *qps; /* by QP number */
	/* Cache of `qps`: the QPs of recent completions, by the low bits of the
	 * QP number. */
	struct mpib_lane_qp *recent[MPIB_RECENT_QPS];
	/* n.n: events that belong to no lane, and the totals of past lanes */
	struct mpib_snap_rail n;
};

TAILQ_HEAD(engine_conn_list, engine_conn);
TAILQ_HEAD(mpib_lane_list, mpib_lane);
TAILQ_HEAD(engine_client_list, engine_client);
TAILQ_HEAD(mpib_tenant_list, mpib_tenant);
TAILQ_HEAD(mpib_call_list, mpib_call);

/* Maximum of completions of one poll. */
#define MPIB_CQ_BATCH 32

struct mpib_shard {
	struct mpib_engine *engine;
	unsigned index;
	unsigned device; /* index of the device to which the rails belong */
	pthread_t thread;
	cpu_set_t cpus; /* CPUs to run on, if pinned */
	bool pinned;
	struct mpib_mailbox mailbox;
	struct mpib_status_shard *status;
	int epfd; /* doorbells of the clients, mailbox and CQ channels */
	_Atomic bool stop; /* set by mpib_shard_join(), control thread */
	struct mpib_rail rail[MPIB_RAILS];
	struct engine_conn **conn; /* by id; NULL: not started */
	struct engine_client_list clients;
	struct mpib_tenant_list tenants;
	struct mpib_lane_list lanes; /* connected */
	LIST_HEAD(, mpib_lane) watched; /* lanes that the watchdog checks */
	struct mpib_drr_class drrs; /* root of the DRR classes; shard.c */
	bool contended; /* connections compete in this turn, so order matters */
	uint8_t full; /* one bit per rail that became full in this turn */
	/* Next time when a rate limit allows a class to send. */
	uint64_t drr_wake_ns;
	/* some senders were not visited; the next turns must visit them */
	bool unseen;
	struct mpib_tenant_list
		submitting; /* tenants with rings that may not be empty */
	struct engine_conn_list cts; /* receivers with CTS to post */
	struct engine_conn_list flushing; /* receivers with READs to post */
	/* senders that wait for an end-to-end ack */
	struct engine_conn_list waiting;
	/* receivers that must write an end-to-end ack */
	struct engine_conn_list ack_pending;
	bool settling; /* about to sleep: write end-to-end acks without delay */
	struct mpib_wr_pool wrs;
	/* WRs of fragments, held until acknowledged */
	struct mpib_wr_pool frags;
	struct mpib_vcq *vcq; /* for the lanes' virtual QPs; NULL: no spread */
	SLIST_HEAD(, mpib_lane_qp) dirty; /* QPs with WRs to post */
	bool refused; /* a QP refused a post in this turn */
	struct mpib_snap_shard n;
	bool busy; /* the last turn found work */
	bool srq_short; /* an SRQ may hold fewer receives than srq_low */
	uint64_t now; /* start of this turn, ns */
	uint32_t quiet_most; /* limit of successive unsignalled CTS on a QP */
	/* above this size, a WRITE carries the payload, and the IMM follows */
	uint32_t ar_above;
	struct mpib_pace pace;
	uint32_t watch_turns; /* turns since the watchdog's last check */
	uint64_t watched_ns; /* time of the watchdog's last check */
	bool watching; /* the watchdog saw outstanding WRs in its last check */
	struct mpib_call_list looks; /* calls of mpib_rail_on_look() */
	uint64_t look_turn; /* n.turns when the last check began */
	/* For the control thread: the connection ids in use, the next id, and
	 * counts for the size of snapshot buffers. */
	uint64_t conn_ids[ENGINE_CONNS_MAX / 64];
	uint32_t conn_id_next;
	unsigned conns_made, lanes_made, clients_made;
	struct engine_conn_list timed; /* connections with histograms */
	struct mpib_hist_counts closed_times[2][MPIB_TIMES]; /* by is_sender */
	struct ibv_wc wc[MPIB_CQ_BATCH]; /* of the current poll */
};

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
	/* the error that last_error describes; 0: none, or already reported;
	 * control thread */
	int last_error_rc;
	char last_error[256];
	bool rail_up[MPIB_RAILS_MAX]; /* by number */
	bool closing; /* mpib_engine_close() is running; control thread */
	const struct mpib_hint_shm *hints; /* an agent's hints, or NULL */
	/* Time of sup_bw's last change, ns; 0: never. */
	_Atomic uint64_t sup_bw_since;
	/* drained rails: one bit per rail of all devices, see engine.c */
	_Atomic uint32_t drained;
	uint32_t drained_sick; /* those drained only for the agent */
	uint8_t sick; /* what mpib_engine_drain_sick() got */
	struct mpib_tenant *tenants; /* control thread */
	/* Control thread: connected lanes, and lanes not connected yet. */
	struct mpib_made_list lanes, asked;
	/* Number of lanes with a rail whose probes failed recently. */
	unsigned retried;
	int timer; /* timerfd for hold-downs, probes and grace periods */
	/* the time for which the timer is set; 0: it is not set, or its expiry
	 * has been read */
	uint64_t armed;
	unsigned shards, running;
	struct mpib_shard shard[];
};

/* Return the number of the shard's rail among the rails of all devices. */
static inline unsigned mpib_rail_number(const struct mpib_shard *s,
					unsigned rail)
{
	return s->device * s->engine->cfg.rails + rail;
}

static inline const struct mpib_rail_spec *
mpib_rail_spec(const struct mpib_shard *s, unsigned rail)
{
	return &s->engine->cfg.rail[mpib_rail_number(s, rail)];
}

static inline const char *mpib_rail_label(const struct mpib_shard *s,
					  unsigned rail)
{
	const char *label = mpib_rail_spec(s, rail)->label;

	return *label ? label : mpib_rail_name(rail);
}

/* Return the bits of the shard's device, from a mask with one bit per rail of
 * all devices. */
static inline uint8_t mpib_rail_bits(const struct mpib_shard *s, uint32_t all)
{
	return (uint8_t)(all >> mpib_rail_number(s, 0) &
			 ((1u << s->engine->cfg.rails) - 1));
}

/* snapshot.c, shard: add the counts of all connections on the rail, including
 * past ones. */
void mpib_rail_counted(const struct mpib_shard *s, unsigned rail,
		       struct mpib_rail_counts *sum);

/* engine.c: return the object that the first shard of a device has for the
 * rail. `rail` is its number among the rails of all devices. */
struct mpib_rail *mpib_engine_rail(struct mpib_engine *e, unsigned rail);

/* A call from the control thread to the shard and back. The shard handles
 * `msg`. Then the control thread runs after(call) and done(arg, status), and
 * frees the call. `after` and `done` may be NULL. */
struct mpib_call {
	struct mpib_msg msg;
	void *what;
	unsigned rail; /* for the caller's use */
	int status;
	void (*after)(struct mpib_call *call);
	mpib_done_fn *done;
	void *arg;
	TAILQ_ENTRY(mpib_call) link; /* in the list `looks` of a shard */
};

/* Create a call whose `after` is NULL. Ends the process if memory is short. */
struct mpib_call *mpib_call_new(void *what, mpib_done_fn *done, void *arg);
/* Shard thread: let the control thread run done(arg, status). */
void mpib_call_done(struct mpib_shard *s, struct mpib_call *call, int status);

/* engine.c: like mpib_engine_open(), but without shard threads: the caller
 * calls mpib_shard_turn() itself. */
int mpib_engine_open_idle(const struct mpib_engine_config *cfg,
			  const struct mpib_engine_events *events, void *ctx,
			  struct mpib_engine **engine, char *why,
			  size_t why_len);
/* Stop the shard threads. Then run all messages in the mailboxes of the engine
 * and of the shards. */
void mpib_engine_halt(struct mpib_engine *engine);

/* shard.c */
int mpib_shard_init(struct mpib_shard *s, struct mpib_engine *e, unsigned index,
		    char *why, size_t why_len);

/* shard.c */
int mpib_shard_start(struct mpib_shard *s);
/* Return the NUMA node of SOUT; -1: unknown, or none. Control thread. */
static inline int mpib_shard_node(const struct mpib_shard *s)
{
	return s->rail[MPIB_RAIL_SOUT].port.numa_node;
}
void mpib_shard_join(struct mpib_shard *s);
/* Free the shard's resources, also after a failed mpib_shard_init(). */
void mpib_shard_fini(struct mpib_shard *s);
/* Make each write to the eventfd `bell` wake the shard. Control thread. Returns
 * 0 or -errno. Call mpib_shard_unwatch_bell() before closing the eventfd. */
int mpib_shard_watch_bell(struct mpib_shard *s, int bell);
void mpib_shard_unwatch_bell(struct mpib_shard *s, int bell);
/* Make one turn, with a limit on each kind of work, and return how much work
 * was found. Called by the shard thread, or by a test that makes turns
 * itself. */
int mpib_shard_turn(struct mpib_shard *s);

/* rail.c, control thread. Close the rail before the shard runs, or after it was
 * joined. */
void mpib_rail_close(struct mpib_rail *rail);

/* rail/rail.c: after mpib_engine_probe(), determine which rails are up, and
 * which are away because their port is down. Control thread, before the shards
 * run. */
void mpib_engine_settle_ports(struct mpib_engine *e);

/* async.c, control thread. Record the failure of a verbs call for
 * mpib_engine_last_error(). Does nothing if rc >= 0. Returns rc. */
int mpib_last_error(const struct mpib_shard *s, unsigned rail, const char *call,
		    int rc);
/* Record that the rail's CQ has no room for the object named in `what`. Return
 * -ENOSPC. */
int mpib_last_error_crowded(const struct mpib_shard *s, unsigned rail,
			    const char *what);
/* Record a failure of something other than a verbs call. Return rc. */
int mpib_last_error_set(struct mpib_engine *e, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* rail/probe.c: check whether the opened rails fit together and support what
 * the engine needs; fill in max_inline, e->dmabuf and ar_above. Control thread,
 * before the shards run. On failure returns -errno and writes the cause to
 * `why`. */
int mpib_engine_probe(struct mpib_engine *e, char *why, size_t why_len);

/* async.c: size of the text `why` of an event. */
#define MPIB_BROKEN_WHY 200
/* async.c, shard thread: make the control thread call conn_broken, or
 * lane_broken if `conn` is NULL. Only this function allocates memory on a shard
 * thread, and it runs only after a failure. Ends the process if memory is
 * short. */
void mpib_broken_tell(struct mpib_lane *lane, struct engine_conn *conn,
		      int error, const char *why);

/* Record that the rail's port went up or down, or that the shard lost its
 * device. `why` is the text of the event. Control thread. */
void mpib_async_port(struct mpib_shard *s, unsigned rail, bool up,
		     const char *why);

/* async.c: handle the pending asynchronous events of the shard's devices.
 * Control thread; never blocks. */
void mpib_async_turn(struct mpib_shard *s);
/* async.c: return whether a verbs call on the rail failed with rc because the
 * device is gone. The device's event may not have come yet, so query the port.
 * If the device is gone, mark the rail as lost, as the event would. Control
 * thread. */
bool mpib_rail_is_gone(struct mpib_shard *s, unsigned rail, int rc);
/* cq.c: poll both rails, up to a limit. Return the number of completions. */
int mpib_cq_turn(struct mpib_shard *s);
/* Report the spread stripes that are completely sent to their senders. Return
 * how many stripes were reported. Call only if s->vcq is set. */
int mpib_cq_whole_turn(struct mpib_shard *s);
/* Poll until the CQs of both rails are empty, or up to a limit. */
void mpib_cq_poll_all(struct mpib_shard *s);

/* conn/send_op.c: write the end-to-end acks that are due; read the end-to-end
 * acks that receivers wrote. */
int mpib_ack_write_turn(struct mpib_shard *s);
int mpib_ack_read_turn(struct mpib_shard *s);

/* shard.c: post CTS and send ops of connections, in the order of their DRR
 * classes. */
int mpib_sched_turn(struct mpib_shard *s);
/* Return how long the shard may sleep, in ms: at most `most`, or less if a rate
 * limit allows a connection to send earlier. */
int mpib_sched_sleep_ms(const struct mpib_shard *s, int most);

#endif
