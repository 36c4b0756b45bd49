/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's reason for a connection's failure. Nobody waits for it: the
 * connection's thread asks from post, test or ready, which say "not yet" until
 * the answer has come or its time is done.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ipc/client.h"
#include "ipc/message.h"

/* Under the lock, on any thread of the client. */
void mpib_why_answered(struct mpib_client *c, const struct mpib_message *m)
{
	const struct mpib_ctl_text *got = (const void *)m->bytes;
	struct mpib_conn *conn;

	LIST_FOREACH(conn, &c->conns, link)
	{
		struct mpib_reason *r = &conn->reason;

		if (r->asked != m->h.id)
			continue;
		if (m->h.status == 0 && m->len >= sizeof(*got))
			snprintf(r->text, sizeof(r->text), "%.*s",
				 (int)sizeof(got->text) - 1, got->text);
		/* A request fails in the shard's thread, and the control thread
		 * may answer before it has read the shard's message: ask
		 * again. */
		if (m->h.status == 0 && !r->text[0] && !r->early) {
			r->early = true;
			r->asked = 0;
			continue;
		}
		/* Pairs with the acquire in mpib_why_known(). */
		atomic_store_explicit(&r->told, true, memory_order_release);
	}
}

/* Ask, unless that was done, and take what has been answered. Under the lock.
 * False: no answer will come. */
static bool why_ask(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;
	struct mpib_reason *r = &conn->reason;
	int rc = 0;

	mpib_rpc_settle(c);
	if (!mpib_client_ok(c))
		return false;
	if (r->asked && mpib_now_ms() < r->until)
		return true;
	if (r->asked) {
		c->deaf |= c->heard == r->heard;
		return false;
	}
	if (c->deaf)
		return false;
	rc = mpib_rpc_tell(c, c->at, MPIB_CTL_WHY, conn->index, &r->asked);
	r->heard = c->heard;
	return rc == 0 || rc == -EAGAIN;
}

bool mpib_why_known(struct mpib_conn *conn, int rc)
{
	struct mpib_client *c = conn->client;
	struct mpib_reason *r = &conn->reason;
	bool hope = true, told;

	if (r->until == 0)
		r->until = mpib_now_ms() + c->answer_ms;
	/* A thread that holds the lock longer waits for an answer of its own,
	 * and takes this one as well. */
	if (mpib_client_try(c)) {
		hope = why_ask(conn);
		mpib_client_unlock(c);
	}
	/* Acquire, pairs with the release in mpib_why_answered(). */
	told = atomic_load_explicit(&r->told, memory_order_acquire);
	if (!told && hope && mpib_now_ms() < r->until)
		return false;
	if (told && r->text[0])
		memcpy(conn->why, r->text, sizeof(r->text));
	else
		snprintf(conn->why, sizeof(conn->why),
			 "connection %u is broken: %s (see mpib-proxy's log)",
			 conn->index, mpib_errtext(rc));
	return true;
}

int mpib_conn_usable(struct mpib_conn *conn)
{
	int rc = mpib_conn_goes_on(conn);

	if (rc <= 0)
		return rc;
	if (conn->error == -ENOTCONN)
		return mpib_fail(-ENOTCONN,
				 "connection %u is not ready (poll "
				 "mpib_ready() first)",
				 conn->index);
	rc = mpib_conn_broken(conn);
	if (rc == MPIB_BROKEN_LOST) /* since it was looked at above */
		return 0;
	return conn->error || rc ? mpib_conn_fail(conn, rc, NULL) : 1;
}
