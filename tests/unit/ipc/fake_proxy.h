/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy for tests of the client library: a thread answers the control socket,
 * and the test turns the shard. Everything that the client sends arrives at
 * itself.
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

/* One end as the shard sees it: descriptors that were popped but not
 * completed. */
struct fake_conn {
	struct mpib_consumer ring;
	struct mpib_desc queue[FAKE_QUEUE];
	unsigned first, last;
	uint32_t moved; /* bytes of the current message */
	uint32_t in_part; /* bytes of the current part among them */
	uint32_t size[MPIB_GROUP_MAX]; /* bytes of the current group */
	uint32_t ended[MPIB_REQUESTS]; /* last completed generation */
	unsigned group_done;
	struct mpib_desc flush; /* last popped descriptor */
	unsigned flushes; /* number of popped descriptors */
};

struct fake_proxy {
	pthread_mutex_t lock; /* protects the welcome and the pools */
	struct mpib_ctl_welcome welcome;
	int refuse_hello; /* -errno */
	bool mute; /* answers nothing */
	_Atomic bool hold; /* stopped as by SIGSTOP */
	/* request type that it starts and never completes */
	_Atomic uint32_t slow;
	_Atomic bool hold_pending, hold_closing;
	_Atomic int refuse_conn; /* -errno: connections become FAILED */
	_Atomic bool was_ready; /* FAILED after READY: the peer closed */
	_Atomic int refuse_reg; /* -errno */
	_Atomic int refuse_pool; /* -errno */
	_Atomic int refuse_resume, refuse_listen; /* -errno */
	_Atomic int traffic_class; /* traffic class of the last connect */
	_Atomic uint64_t accept_key; /* key in the answers to accepts */
	_Atomic uint64_t base; /* base in the answers to connects */
	/* The last request of each type, and how many of that type came. */
	struct mpib_ctl_connect connect;
	struct mpib_ctl_resume resume;
	struct mpib_ctl_listen relisten;
	struct mpib_ctl_next next;
	_Atomic unsigned came, came_before[16];

	char dir[32];
	int listen, stop, sock, doorbell;
	/* pidfd of the process that stands for the proxy; -1: none */
	int pidfd;
	int process; /* the process of fake_proxy_mortal() */
	pthread_t thread;
	struct mpib_memseg status_seg, submit_seg, reply_seg;
	struct mpib_status *status;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_memseg pool[FAKE_POOLS]; /* indexed by region handle */
	_Atomic unsigned asked[16]; /* requests by type */
	/* the started request of type slow; under the lock */
	struct mpib_message begun;
	struct fake_conn conn[FAKE_FLOWS];
	unsigned seed;
};

/* Return NULL on failure. */
struct fake_proxy *fake_proxy_start(void);
void fake_proxy_stop(struct fake_proxy *f);
/* Close the client's connection, as a proxy that dies. */
void fake_proxy_die(struct fake_proxy *f);
/* Give the proxy a process, and tell clients how long to wait for a new
 * proxy. */
void fake_proxy_mortal(struct fake_proxy *f, uint32_t grace_ms);
/* After fake_proxy_die(): end the process. */
void fake_proxy_end(struct fake_proxy *f);
/* After fake_proxy_end(): start another proxy, with its own segments, at the
 * same path. */
void fake_proxy_return(struct fake_proxy *f);

/* Start another proxy that listens instead of f. */
struct fake_proxy *fake_proxy_beside(struct fake_proxy *f);
/* Announce an upgrade to its client. */
void fake_tell_next(struct fake_proxy *f, uint32_t number);

int fake_attach(struct fake_proxy *f, struct mpib_client **client);

/* Serve this index from its published head on, as for a new connection. */
void fake_conn_open(struct fake_proxy *f, unsigned index);

/* Pop the queued descriptors, then move up to `bytes` from index `from` to
 * `to`, in pieces of random length. */
void fake_turn(struct fake_proxy *f, unsigned from, unsigned to,
	       uint32_t bytes);

/* Answer the requests that were started but not completed. */
void fake_end_slow(struct fake_proxy *f);

void fake_set_state(struct fake_proxy *f, unsigned index, uint32_t state,
		    int32_t error);

#endif
