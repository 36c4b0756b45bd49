/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy for tests of the client library. A thread serves the control socket,
 * and the test makes the turns of the shard. The client is its own peer: it
 * receives all bytes that it sends.
 */
#ifndef FAKE_PROXY_H
#define FAKE_PROXY_H

#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/memseg.h"
#include "ipc/message.h"

#define FAKE_POOLS 64
#define FAKE_FLOWS 8 /* connection indices that the shard serves */
#define FAKE_QUEUE 512

/* One end of a connection in the shard. The queue has the descriptors that were
 * popped but not completed. */
struct fake_conn {
	struct mpib_consumer ring;
	struct mpib_desc queue[FAKE_QUEUE];
	unsigned first, last;
	uint32_t moved; /* bytes of the current message that were moved */
	/* bytes of the current part that were moved */
	uint32_t in_part;
	/* bytes of each message of the current group */
	uint32_t size[MPIB_GROUP_MAX];
	/* last completed generation of each request */
	uint32_t ended[MPIB_REQUESTS];
	unsigned group_done;
	struct mpib_desc flush; /* last popped flush descriptor */
	unsigned flushes; /* number of popped flush descriptors */
};

struct fake_proxy {
	pthread_mutex_t lock; /* protects the welcome and the pools */
	struct mpib_ctl_welcome welcome;
	/* the proxy refuses clients with this -errno; 0: it accepts them */
	int refuse_hello;
	bool mute; /* the proxy answers no message */
	_Atomic bool hold; /* the proxy is stopped, as by SIGSTOP */
	/* type of request that is not answered until fake_end_slow() */
	_Atomic uint32_t slow;
	_Atomic bool hold_pending, hold_closing;
	/* if not 0: connections become FAILED with this -errno */
	_Atomic int refuse_conn;
	/* the proxy reports that FAILED connections were READY before */
	_Atomic bool was_ready;
	_Atomic int refuse_reg; /* error as -errno */
	_Atomic int refuse_pool; /* error as -errno */
	_Atomic int refuse_resume, refuse_listen; /* errors as -errno */
	_Atomic int traffic_class; /* traffic class of the last connect */
	/* peer's key, reported in answers to accepts */
	_Atomic uint64_t accept_key;
	/* peer's base, reported in answers to connects */
	_Atomic uint64_t base;
	/* The last request of each type. */
	struct mpib_ctl_connect connect;
	struct mpib_ctl_connect resume;
	struct mpib_ctl_listen relisten;
	struct mpib_ctl_next next;
	_Atomic unsigned came, came_before[16];

	char dir[32];
	int listen, stop, sock, doorbell;
	/* pidfd of `process`, or -1 */
	int pidfd;
	/* process that stands for the proxy's process, see
	 * fake_proxy_mortal() */
	int process;
	pthread_t thread;
	struct mpib_memseg status_seg, submit_seg, reply_seg;
	struct mpib_status *status;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_memseg pool[FAKE_POOLS]; /* indexed by region handle */
	_Atomic unsigned asked[16]; /* number of requests by type */
	/* the unanswered request of type `slow`; protected by `lock` */
	struct mpib_message begun;
	struct fake_conn conn[FAKE_FLOWS];
	unsigned seed;
};

/* Start a fake proxy. Return NULL on failure. */
struct fake_proxy *fake_proxy_start(void);
void fake_proxy_stop(struct fake_proxy *f);
/* Close the client's connection, as a dying proxy does. */
void fake_proxy_die(struct fake_proxy *f);
/* Give the proxy a process that can be killed, and tell clients to wait for a
 * new proxy for `grace_ms`. */
void fake_proxy_mortal(struct fake_proxy *f, uint32_t grace_ms);
/* Kill the proxy's process. Call fake_proxy_die() first. */
void fake_proxy_end(struct fake_proxy *f);
/* Start a new proxy with its own segments at the same path. Call
 * fake_proxy_end() first. */
void fake_proxy_return(struct fake_proxy *f);

/* Start another proxy, which listens at the path of `f` and replaces `f`. */
struct fake_proxy *fake_proxy_beside(struct fake_proxy *f);
/* Announce upgrade number `number` to the proxy's client. */
void fake_tell_next(struct fake_proxy *f, uint32_t number);

int fake_attach(struct fake_proxy *f, struct mpib_client **client);

/* Serve the connection at this index, beginning at the published head of its
 * ring, as the shard does for a new connection. */
void fake_conn_open(struct fake_proxy *f, unsigned index);

/* Pop the queued descriptors. Then move up to `bytes` from index `from` to `to`
 * in pieces of random length. */
void fake_turn(struct fake_proxy *f, unsigned from, unsigned to,
	       uint32_t bytes);

/* Answer the last request of type `slow`. */
void fake_end_slow(struct fake_proxy *f);

void fake_set_state(struct fake_proxy *f, unsigned index, uint32_t state,
		    int32_t error);
/* Let the connection fail, as its shard and the control thread report it. */
void fake_break(struct fake_proxy *f, unsigned index, int32_t error);

#endif
