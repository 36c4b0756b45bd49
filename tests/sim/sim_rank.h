/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks are processes that use the real client library, as the plugin does.
 * Each rank serves its ends of the plan's lines and checks every byte.
 */
#ifndef SIM_RANK_H
#define SIM_RANK_H

#include <mpib/client.h>
#include <mpib/control.h>

#include "sim_plan.h"
#include "sim_task.h"

/* number of failed connections after which a line is given up */
#define SIM_TRIES 3
/* number of failed attempts after which a rank gives up, if a quota can be why
 * they failed */
#define SIM_REFUSALS 50
#define SIM_SENDS (SIM_WINDOW * SIM_GROUP)

/* A line carries messages from one rank to another. Both ends share this state.
 * Real ranks, too, exchange such state outside mpib. */
struct sim_line {
	const struct sim_line_plan *plan;
	const struct sim_end *receives, *sends;
	unsigned number;
	struct mpib_handle handle;
	/* number of listens of the receiver, each for one connection */
	unsigned offered;
	/* number of the last listen that the sender has tried to reach */
	unsigned tried;
	/* `sent`: number of connections on which the sender has sent all
	 * messages. `received`: number of connections on which the receiver has
	 * received all messages. */
	unsigned sent, received;
	bool given_up;
	uint64_t messages, bytes, failures;
};

/* One end of a line. The end belongs to the rank `rank`. */
struct sim_end {
	struct sim_line *line;
	struct sim_rank *rank;
	bool sends, open, ready, over;
	unsigned life; /* number of the current connection */
	uint64_t again; /* earliest time of the next attempt after a failure */
	/* number of times that a connection failed before it was ready */
	unsigned refused;
	uint64_t accept_at; /* time at which a listener calls accept */
	struct mpib_listener *listener;
	struct mpib_conn *conn;
	char *mem;
	struct mpib_region *region;
	/* `arrived`: the oldest receive has completed. `flushing`: the flush of
	 * this receive is in progress (only with GPU memory). */
	bool arrived, flushing;
	size_t size[SIM_GROUP];
	struct mpib_request *flush;
	/* `posted`: number of messages that this end has posted. `done`: number
	 * of these messages that have completed. `sent_of`, at the sender: for
	 * each message in the window, a mask of the sends that are posted. */
	uint64_t posted, done;
	uint8_t sent_of[SIM_WINDOW];
	/* `filled_of`, at the sender: for each message in the window, a mask of
	 * the buffers that are filled. `emptied`, at the receiver: number of
	 * messages whose buffers were prepared. */
	uint8_t filled_of[SIM_WINDOW];
	uint64_t emptied;
	struct mpib_request *req[SIM_SENDS];
	bool ended[SIM_SENDS];
};

struct sim_rank {
	unsigned number, node;
	struct sim_proc *proc;
	struct mpib_client *client;
	struct sim_end end[SIM_LINES];
	unsigned ends;
	unsigned refused; /* number of failed attaches */
	void *spare; /* memory for rank_churn() */
	struct mpib_region *spare_region;
};

void sim_ranks_start(const struct sim_plan *plan);
bool sim_ranks_over(void);
struct sim_rank *sim_rank(unsigned number);
/* Kill the rank and end its lines. */
void sim_rank_kill(unsigned number);
uint64_t sim_rank_messages(void);
/* Return the number of bytes received by all ranks. */
uint64_t sim_rank_bytes(void);
uint64_t sim_rank_failures(void);
/* Print the state of each line to stderr. */
void sim_ranks_print(void);
/* Return whether quotas can refuse a request forever. */
bool sim_ranks_meet_quotas(void);
/* Return whether the plan allows connections to fail. */
bool sim_ranks_may_fail(void);
/* Return the maximum time between a listen and its accept. */
uint64_t sim_ranks_late(void);
/* Return how long to pause, in ns, before the next attempt. `refused` is the
 * number of failed attempts. */
uint64_t sim_rank_patience(unsigned refused);
/* Return the time at which the ranks were started. */
uint64_t sim_ranks_began(void);
/* Return whether the plan has a fault of this kind. */
bool sim_ranks_meet(enum sim_fault_kind kind);
/* Return whether ranks resume their connections after their proxies were
 * killed. */
bool sim_ranks_resume(void);

/* sim_line.c: sim_line_post() posts a receive or a send, and sim_line_take()
 * completes one. Return true if something happened. */
bool sim_line_post(struct sim_end *e, struct sim_rng *r);
bool sim_line_take(struct sim_end *e);

/* sim_end.c: run one step of an end. Return true if something happened. */
bool sim_end_step(struct sim_end *e, struct sim_rng *r);
/* Handle a failure of the end's connection or client. */
void sim_end_fail(struct sim_end *e, const char *what, int rc);

/* sim_bytes.c */
void sim_bytes_fill(char *p, size_t len, uint64_t seed);
/* Return the offset of the first wrong byte, or `len` if there is none. */
size_t sim_bytes_wrong(const char *p, size_t len, uint64_t seed);
/* Return the offset of the first byte that differs from the character `than`,
 * or `len` if there is none. */
size_t sim_bytes_other(const char *p, size_t len, char than);
uint64_t sim_mix(uint64_t z);

#endif
