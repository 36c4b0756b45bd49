/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, and the messages on their links; call.c and hello.c make the links.
 * Control thread.
 *
 * There is one link per peer. When it breaks, either end makes a new one and
 * the session goes on over that (resume.h). The lanes are lost if the peer was
 * silent for too long, refuses the call, or does not have the session any more.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/event.h"
#include "peer/internal.h"

static const struct mpib_link_events up_events;

bool mpib_peer_we_are_lower(const struct mpib_peer *p)
{
	const struct mpib_node_id *a = &p->broker->self, *b = &p->node;

	/* Bytes in network order, of IPv4 behind a prefix that all have. */
	int order = memcmp(&a->addr, &b->addr, sizeof(a->addr));

	return order ? order < 0 : a->port < b->port;
}

void mpib_peer_goes_on(struct mpib_peer *p, struct mpib_link *link)
{
	link->events = &up_events;
	link->ctx = p;
	p->link = link;
	p->state = MPIB_PEER_UP;
	link->seen = &p->resume.seen;
	mpib_fifo_count(&link->out.bytes, &p->broker->waits);
}

void mpib_peer_forget(struct mpib_peer *p, const char *why)
{
	char text[200];

	mpib_timer_disarm(p->broker->loop, &p->away);
	mpib_resume_end(&p->resume);
	peer_ask_forget(p);
	p->resuming = false;
	if (TAILQ_EMPTY(&p->lanes))
		return;
	/* why may be the text of an object that is freed below. */
	snprintf(text, sizeof(text), "%s", why);
	mpib_event(MPIB_LOG_WARN, "peer_down",
		   &(struct mpib_event_about){ .peer = p->label },
		   "peer %s: its lanes are lost: %s", p->label, text);
	peer_lanes_lost(p, text);
}

static void on_away_end(void *arg)
{
	struct mpib_peer *p = arg;
	char why[200];

	snprintf(why, sizeof(why), "its link broke (%s) and was not made again",
		 p->last_error);
	mpib_peer_forget(p, why);
}

/* The lanes wait for a new link until the peer has been silent for as long as a
 * link may be. */
static void go_away(struct mpib_peer *p, const struct mpib_link *link,
		    const char *why)
{
	unsigned all = p->broker->silence_s;
	unsigned left = link->silent < all ? all - link->silent : 0;

	if (!p->resume.id || left == 0 || link->error == -EPROTO) {
		mpib_peer_forget(p, why);
		return;
	}
	mpib_event(MPIB_LOG_WARN, "peer_away",
		   &(struct mpib_event_about){ .peer = p->label },
		   "peer %s: link broke: %s; its lanes wait %u s for another",
		   p->label, why, left);
	mpib_timer_arm(p->broker->loop, &p->away, left * MPIB_SEC, on_away_end,
		       p);
}

void mpib_peer_lost(void *peer, struct mpib_link *link, const char *why)
{
	struct mpib_peer *p = peer;
	bool was_up = p->state == MPIB_PEER_UP;

	if (p->held)
		mpib_timer_disarm(p->broker->loop, &p->retry);
	p->held = false;
	p->link = NULL;
	p->state = MPIB_PEER_IDLE;
	p->resuming = false;
	snprintf(p->last_error, sizeof(p->last_error), "%s", why);
	if (!was_up) {
		mpib_call_failed(p, link->error);
		return;
	}
	mpib_second_turn(p, mpib_address_same(&link->addr, &p->second));
	go_away(p, link, why);
	mpib_call_again(p, 0);
}

void mpib_peer_cut(struct mpib_peer *p, const char *why)
{
	struct mpib_link *link = p->link;

	if (!link)
		return;
	mpib_peer_lost(p, link, why);
	mpib_link_close(link);
}

static void on_overflow(void *arg)
{
	struct mpib_peer *p = arg;

	/* The session has a gap, or its link does, so nothing more may go over the
	 * link: cut it first. */
	mpib_resume_end(&p->resume);
	if (p->state == MPIB_PEER_UP)
		mpib_peer_cut(p, "more waits for it than may be kept");
	else
		mpib_peer_forget(p, "more waits for it than may be kept");
}

void mpib_peer_tell(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	bool now = p->state == MPIB_PEER_UP && !p->resuming;
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	bool kept;
	size_t n;

	if (!now && !p->resume.id)
		return;
	n = mpib_peer_encode(m, frame);
	kept = mpib_resume_keep(&p->resume, frame, n);
	if (now)
		mpib_link_send_frame(p->link, frame, n);
	else if (!kept) /* the message is lost, and so is the session. By a
			   timer, for callers may be walking the lanes */
		mpib_timer_arm(p->broker->loop, &p->away, 0, on_overflow, p);
}

void mpib_peer_refuse(struct mpib_peer *p, enum mpib_peer_type type,
		      uint32_t to, int error, const char *why)
{
	struct mpib_peer_msg m = { .type = type, .to = to, .error = error };

	mpib_peer_text(m.why, sizeof(m.why), why);
	mpib_peer_tell(p, &m);
}

bool mpib_peer_again(struct mpib_peer *p, uint64_t seen)
{
	const uint8_t *frame;
	size_t pos = 0, n;

	if (!mpib_resume_acked(&p->resume, seen))
		return false;
	p->resuming = false;
	while ((frame = mpib_resume_next(&p->resume, &pos, &n)))
		mpib_link_send_frame(p->link, frame, n);
	if (p->link->out.overflow) /* the next link would have no more room */
		on_overflow(p);
	return true;
}

void mpib_peer_broke(struct mpib_peer *p, const char *what)
{
	mpib_warn("peer %s: %s, its link is cut", p->label, what);
	mpib_peer_forget(p, "it broke the protocol");
	mpib_peer_cut(p, "it broke the protocol");
}

static void on_acked(void *ctx, struct mpib_link *link, uint64_t seen)
{
	struct mpib_peer *p = ctx;
	bool sound;

	(void)link;
	if (p->resuming && !p->resume.id)
		return; /* on_overflow() is about to run */
	sound = p->resuming ? mpib_peer_again(p, seen)
			    : mpib_resume_acked(&p->resume, seen);
	if (!sound)
		mpib_peer_broke(p, "it claims to have what was not sent");
}

static void peer_on_message(void *ctx, struct mpib_link *link,
			    const struct mpib_peer_msg *m)
{
	struct mpib_peer *p = ctx;
	bool sound = false;
	char what[64];

	(void)link;
	switch (m->type) {
	case MPIB_PEER_LANE_OPEN:
	case MPIB_PEER_LANE_ACCEPT:
	case MPIB_PEER_LANE_REJECT:
	case MPIB_PEER_LANE_CLOSE:
	case MPIB_PEER_LANE_RAIL:
		sound = peer_lane_message(p, m);
		break;
	case MPIB_PEER_CONN_OPEN:
	case MPIB_PEER_CONN_ACCEPT:
	case MPIB_PEER_CONN_REJECT:
	case MPIB_PEER_CONN_CANCEL:
	case MPIB_PEER_CONN_CLOSE:
	case MPIB_PEER_CONN_CLOSED:
	case MPIB_PEER_CONN_MOVED:
		sound = peer_conn_message(p, m);
		break;
	case MPIB_PEER_SECOND:
		mpib_second_take(p, &m->second);
		sound = true;
		break;
	case MPIB_PEER_ASK:
	case MPIB_PEER_REPORT:
		peer_ask_message(p, m);
		sound = true;
		break;
	case MPIB_PEER_HELLO:
	case MPIB_PEER_WELCOME:
	case MPIB_PEER_REFUSED:
	case MPIB_PEER_READY:
	case MPIB_PEER_PING:
	case MPIB_PEER_PONG:
		break;
	}
	if (!sound) {
		snprintf(what, sizeof(what), "%s out of turn",
			 mpib_peer_type_name(m->type));
		mpib_peer_broke(p, what);
	}
}

static const struct mpib_link_events up_events = {
	.message = peer_on_message,
	.acked = on_acked,
	.down = mpib_peer_lost,
};

enum mpib_path mpib_peer_path(const struct mpib_peer *p)
{
	const struct mpib_broker *b = p->broker;

	return b->islands ? mpib_islands_path(b->islands, b->self.sout,
					      p->node.sout)
			  : MPIB_PATH_UNKNOWN;
}

void mpib_peer_is_up(struct mpib_peer *p, struct mpib_link *link,
		     const struct mpib_node_id *node)
{
	const char *by = mpib_address_same(&link->addr, &p->second)
				 ? " by its second address"
				 : "";
	struct peer_conn *c;

	mpib_peer_goes_on(p, link);
	p->node.boot = node->boot;
	p->node.sout = node->sout;
	p->last_error[0] = p->told[0][0] = p->told[1][0] = 0;
	mpib_timer_disarm(p->broker->loop, &p->retry);
	mpib_event(MPIB_LOG_INFO, "peer_up",
		   &(struct mpib_event_about){ .peer = p->label },
		   p->away.armed
			   ? "peer %s: link is up again%s, its lanes go on"
			   : "peer %s: link is up%s",
		   p->label, by);
	mpib_timer_disarm(p->broker->loop, &p->away);
	mpib_second_patience(p, link, false);
	mpib_second_tell(p);
	while ((c = TAILQ_FIRST(&p->waiting))) {
		TAILQ_REMOVE(&p->waiting, c, entry);
		peer_conn_linked(c);
	}
}
