/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy for tests of the client library: a thread answers the control socket,
 * and the test turns the shard by hand. The client receives everything that it
 * sends.
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
#define FAKE_FLOWS 8 /* connection indices the shard serves */
#define FAKE_QUEUE 512

/* One end as the shard sees it: popped but incomplete work. */
struct fake_conn {
	struct mpib_consumer ring;
	struct mpib_desc queue[FAKE_QUEUE];
	unsigned first, last;
	uint32_t moved; /* bytes of the current message */
	uint32_t in_part; /* of these, bytes of the current part */
	uint32_t size[MPIB_GROUP_MAX]; /* bytes of the current group */
	uint32_t ended[MPIB_REQUESTS]; /* last completed generation */
	unsigned group_done;
	struct mpib_desc flush; /* last popped descriptor */
	unsigned flushes; /* number of popped descriptors */
};

struct fake_proxy {
	pthread_mutex_t lock; /* the welcome and the pools */
	struct mpib_ctl_welcome welcome;
	int refuse_hello; /* -errno */
	bool mute; /* answers nothing */
	_Atomic bool hold; /* stopped, as by SIGSTOP */
	_Atomic uint32_t slow; /* type that it starts and never completes */
	_Atomic bool hold_pending, hold_closing;
	_Atomic int refuse_conn; /* -errno: state FAILED */
	_Atomic bool was_ready; /* FAILED after READY: its peer closed */
	_Atomic int refuse_reg; /* -errno */
	_Atomic int refuse_pool; /* -errno */
	_Atomic int refuse_resume, refuse_listen; /* -errno */
	_Atomic int traffic_class; /* of the last connect */
	_Atomic uint64_t accept_key; /* in the answers to accepts */
	_Atomic uint64_t base; /* in the answers to connects */
	/* The last of each that came, and how many requests came before it. */
	struct mpib_ctl_connect connect;
	struct mpib_ctl_resume resume;
	struct mpib_ctl_listen relisten;
	struct mpib_ctl_next next;
	_Atomic unsigned came, came_before[16];

	char dir[32];
	int listen, stop, sock, doorbell;
	int pidfd; /* of the process that stands for the proxy; -1: none */
	int process; /* the same of fake_proxy_mortal() */
	pthread_t thread;
	struct mpib_memseg status_seg, submit_seg, reply_seg;
	struct mpib_status *status;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_memseg pool[FAKE_POOLS]; /* region handle is the index */
	_Atomic unsigned asked[16]; /* requests by type */
	struct mpib_message begun; /* of type slow; under the lock */
	struct fake_conn conn[FAKE_FLOWS];
	unsigned seed;
};

/* Return NULL on failure. */
struct fake_proxy *fake_proxy_start(void);
void fake_proxy_stop(struct fake_proxy *f);
/* Close the client's connection. */
void fake_proxy_die(struct fake_proxy *f);
/* Give the proxy a process, and tell clients how long to wait for a new
 * proxy. */
void fake_proxy_mortal(struct fake_proxy *f, uint32_t grace_ms);
/* After fake_proxy_die(): end the process. */
void fake_proxy_end(struct fake_proxy *f);
/* After that: start another proxy, with its own segments, at the same path. */
void fake_proxy_return(struct fake_proxy *f);

/* Start another proxy that listens in f's place. */
struct fake_proxy *fake_proxy_beside(struct fake_proxy *f);
/* Announce an upgrade to its client. */
void fake_tell_next(struct fake_proxy *f, uint32_t number);

int fake_attach(struct fake_proxy *f, struct mpib_client **client);

/* Serve the index from its published head on, as for a new connection. */
void fake_conn_open(struct fake_proxy *f, unsigned index);

/* Pop what is queued, then move up to `bytes` from index `from` to `to`, in
 * pieces of random length. */
void fake_turn(struct fake_proxy *f, unsigned from, unsigned to,
	       uint32_t bytes);

/* Answer the requests that were started and not completed. */
void fake_end_slow(struct fake_proxy *f);

void fake_set_state(struct fake_proxy *f, unsigned index, uint32_t state,
		    int32_t error);

#endif
