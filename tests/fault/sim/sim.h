/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deterministic world for the fail-over core: two ends with two rails, each
 * end a control thread and a shard that talk by mailboxes, a peer link that
 * keeps order, and a network that keeps packets as long as it likes. One seed
 * is one run: it draws the faults and whose step comes next. The ends run the
 * real struct mpib_fence and struct mpib_stripes.
 *
 * End 0 sends messages, end 1 receives them. A message has up to three send ops,
 * each of which has a stripe per rail it is split over; the last one carries an
 * IMM per rail that was used.
 *
 * A device may forget: it acknowledges what comes, places nothing, and dies
 * later. A message's buffers are handed back when all of it was acknowledged
 * and the receiver's end-to-end ack has passed it; wire: when it was
 * acknowledged, so that what was forgotten is a violation.
 */
#ifndef MPIB_TESTS_FAULT_SIM_H
#define MPIB_TESTS_FAULT_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "failover/fence.h"
#include "failover/stripes.h"

#define RAILS MPIB_RAILS
#define MESSAGES 12
#define PIECES 3
#define WINDOW 4 /* receives posted */
#define FIFO 512

enum wr_kind {
	WR_DATA,
	WR_REPLAY,
	WR_CTS,
	WR_WORD,
	WR_PROBE
};

struct wr {
	enum wr_kind kind;
	uint32_t epoch; /* of its QPs */
	unsigned message, op;
	uint8_t stripes;
	bool imm;
	uint8_t expected; /* with imm: stripes that end the message */
	unsigned ended; /* the end-to-end ack, of CTS and of itself */
};

/* Both of packets and of completions. */
struct item {
	struct wr wr;
	bool ack; /* packet: an acknowledgement; completion: of a send */
	bool ok;
};

struct fifo {
	struct item v[FIFO];
	unsigned head, tail;
};

struct qp {
	bool exists, err;
	uint32_t epoch;
	struct fifo unacked;
};

/* What one end says it has. */
struct bitmap {
	unsigned first;
	uint8_t seen[MESSAGES];
	unsigned have;
};

enum note_kind {
	/* control to shard */
	NOTE_STOP,
	NOTE_REPLAY,
	NOTE_CONNECT,
	NOTE_RESUME,
	/* shard to control */
	NOTE_FAULT,
	NOTE_STOPPED,
	NOTE_REPLAYED,
	NOTE_PROBED,
	/* end to end */
	NOTE_MESSAGE,
};

struct note {
	enum note_kind kind;
	unsigned rail;
	bool ok;
	enum mpib_fence_msg msg;
	uint32_t epoch;
	struct bitmap bitmap;
};

struct box {
	struct note v[64];
	unsigned head, tail;
};

struct end {
	struct mpib_fence fence[RAILS]; /* control */
	struct bitmap theirs[RAILS];
	bool hold[RAILS], replaying[RAILS];
	struct box to_shard, to_control, from_peer;
	struct qp qp[RAILS];
	struct fifo cq[RAILS];
	/* Shard. */
	bool open[RAILS], stopping[RAILS], faulted[RAILS], probing[RAILS];
	uint32_t epoch[RAILS];
};

struct op {
	struct mpib_stripes c;
	bool posted;
};

struct world {
	uint64_t rng;
	struct end end[2];
	struct fifo net[RAILS][2]; /* by rail and by sending end */
	bool hurt[RAILS][2]; /* nothing passes at this end of the rail */
	bool down[RAILS][2]; /* and its port says so */
	bool forgets[RAILS][2]; /* acknowledges and loses, until it dies */
	bool wire;
	unsigned faults;
	/* Sender. */
	unsigned ops[MESSAGES]; /* of each */
	unsigned sent, op; /* next to post */
	uint8_t mask; /* rails that the open message used */
	struct op tx[MESSAGES][PIECES];
	bool cts[MESSAGES]; /* in its table */
	unsigned reported; /* messages whose buffers it has back */
	uint8_t ended[MESSAGES], carried[MESSAGES];
	unsigned acked; /* the largest word that came */
	/* Receiver. */
	unsigned posted, announced, again, tail;
	uint8_t expected[MESSAGES], seen[MESSAGES];
	bool placed[MESSAGES][PIECES][RAILS];
	unsigned word; /* that was told, UINT_MAX: none that counts */
	unsigned stale, replays, forgotten;
	const char *wrong; /* what went wrong, NULL so far */
};

/* sim_net.c */
uint64_t sim_draw(struct world *w, uint64_t n);
void sim_wrong(struct world *w, const char *what);
void sim_push(struct fifo *f, const struct item *item);
void sim_post(struct world *w, unsigned e, unsigned rail, struct wr wr);
void sim_qp_error(struct world *w, unsigned e, unsigned rail);
void sim_qp_make(struct world *w, unsigned e, unsigned rail, uint32_t epoch);
/* A step each; false: nothing to do. */
bool sim_deliver(struct world *w, unsigned e, unsigned rail);

/* sim_shard.c */
bool sim_poll(struct world *w, unsigned e, unsigned rail);
bool sim_shard_note(struct world *w, unsigned e);
bool sim_work(struct world *w, unsigned e);
bool sim_watchdog(struct world *w, unsigned e, unsigned rail);

/* sim_control.c */
void sim_note(struct box *b, const struct note *n);
bool sim_control_note(struct world *w, unsigned e);
bool sim_peer_note(struct world *w, unsigned e);
bool sim_hold_over(struct world *w, unsigned e, unsigned rail);
void sim_health(struct world *w, unsigned e, unsigned rail, bool up);
bool sim_probe_late(struct world *w, unsigned e, unsigned rail);

#endif
