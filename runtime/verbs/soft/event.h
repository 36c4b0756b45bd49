/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events: ibv_get_async_event() of the software HCA. */
#ifndef MPIB_VERBS_SOFT_EVENT_H
#define MPIB_VERBS_SOFT_EVENT_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/queue.h>

struct soft_ctx;

/* Events of one object; each event type waits at most once. */
struct soft_events {
	TAILQ_ENTRY(soft_events) link;
	uint32_t pending; /* 1 << enum ibv_event_type */
	uint32_t taken, acked;
	void *element; /* ibv_qp, ibv_cq or ibv_srq; NULL: port or device */
};
TAILQ_HEAD(soft_event_list, soft_events);

int soft_get_async_event(struct ibv_context *c, struct ibv_async_event *out);
void soft_ack_async_event(struct ibv_async_event *ev);
/* Raise an event. The caller holds ctx->lock. */
void soft_event(struct soft_ctx *ctx, struct soft_events *ev,
		enum ibv_event_type type);
void soft_port_event(struct soft_ctx *ctx);
/* fd is a semaphore that counts events: of n of them nobody shall hear. Returns how
 * many counts it did not find: who waits has read them, and not looked yet. */
unsigned soft_uncount(int fd, unsigned n);
/* Before the object is destroyed: drop its events that wait, and block until
 * all events that were taken are acked. */
void soft_events_drain(struct soft_ctx *ctx, struct soft_events *ev);

#endif
