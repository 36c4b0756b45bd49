/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debts: objects that the client has dropped but that the proxy has, or will
 * have when it handles a request whose caller stopped waiting. Another control
 * request undoes each; it is sent as soon as the socket has room, and no caller
 * waits for its answer. All under the client's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/client.h"
#include "ipc/message.h"

static void debt_over(struct mpib_debt *d)
{
	if (d->paid)
		d->paid(d);
	else
		free(d);
}

static void debt_owe(struct mpib_client *c, struct mpib_debt *d, uint32_t asked)
{
	d->asked = asked;
	LIST_INSERT_HEAD(&c->debts, d, link);
}

static void debt_pay(struct mpib_debt *d)
{
	LIST_REMOVE(d, link);
	debt_over(d);
}

/* Take the id of the made object out of the answer m. False: m is too short. */
static bool debt_learn(struct mpib_debt *d, const struct mpib_message *m)
{
	const struct mpib_ctl_listening *l = (const void *)m->bytes;
	const struct mpib_ctl_region *r = (const void *)m->bytes;

	switch (d->undo) {
	case MPIB_CTL_CLOSE_LISTEN:
		d->id = l->listen_id;
		return m->len >= sizeof(*l);
	case MPIB_CTL_DEREG:
		d->id = r->mr;
		return m->len >= sizeof(*r);
	default: /* a connection: the client chose its index itself */
		return true;
	}
}

void mpib_debt_answered(struct mpib_client *c, struct mpib_message *m)
{
	struct mpib_debt *d;

	LIST_FOREACH(d, &c->debts, link)
	{
		if (d->asked && d->asked == m->h.id)
			break;
	}
	mpib_message_close_fds(m);
	if (!d)
		return;
	d->asked = 0;
	if (m->h.status < 0 || !debt_learn(d, m))
		debt_pay(d);
}

uint32_t mpib_debt_keep(struct mpib_debt *d)
{
	uint32_t asked = d->asked;

	LIST_REMOVE(d, link);
	d->asked = 0;
	return asked;
}

void mpib_debts_pay(struct mpib_client *c)
{
	struct mpib_debt *d, *next;

	for (d = LIST_FIRST(&c->debts); d; d = next) {
		struct mpib_ctl_id undo = {
			.h = { .type = d->undo, .len = sizeof(undo) },
			.id = d->id,
		};

		next = LIST_NEXT(d, link);
		if (d->asked)
			continue;
		if (mpib_message_send(c->at->sock, &undo.h, NULL, 0) < 0)
			return;
		debt_pay(d);
	}
}

void mpib_debts_forget(struct mpib_client *c)
{
	while (!LIST_EMPTY(&c->debts))
		debt_pay(LIST_FIRST(&c->debts));
}

int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want)
{
	int rc = mpib_rpc(c, h, fd, fds, m, want);

	if (rc == 0)
		debt_learn(d, m);
	else if (c->asked == MPIB_ASKED_LATE)
		debt_owe(c, d, h->id);
	else if (c->asked == MPIB_ASKED_ANSWERED && m->h.status == 0 &&
		 debt_learn(d, m))
		mpib_rpc_undo_later(c, d); /* made, but the call failed here */
	else
		debt_over(d);
	return rc;
}

int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d)
{
	struct mpib_ctl_id ask = {
		.h = { .type = d->undo, .len = sizeof(ask) },
		.id = d->id,
	};
	struct mpib_message m;
	int rc = mpib_rpc(c, &ask.h, NULL, 0, &m, sizeof(m.h));

	if (rc == 0)
		mpib_message_close_fds(&m);
	if (rc < 0 && rc != -EPIPE && c->asked == MPIB_ASKED_NOT)
		mpib_rpc_undo_later(c, d);
	else
		debt_over(d);
	return rc;
}

void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d)
{
	debt_owe(c, d, 0);
	mpib_debts_pay(c);
}
