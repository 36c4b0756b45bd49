/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <mpib/control.h>
#include <stdio.h>
#include <string.h>

#include "session/session.h"

void mpib_session_listen(struct mpib_session *s, struct mpib_message *m)
{
	struct mpib_ctl_listening answer = {
		.h = { .type = m->h.type,
		       .id = m->h.id,
		       .len = sizeof(answer) },
	};
	int rc;

	if (!mpib_session_may(s, &m->h, MPIB_QUOTA_LISTENERS, 1))
		return;
	rc = mpib_broker_listen(s->all->broker, &s->owner, &answer.listen_id,
				&answer.handle);
	if (rc < 0) {
		mpib_session_refuse(s, &m->h, rc, "no further listener: %s",
				    strerror(-rc));
		return;
	}
	s->listeners++;
	mpib_session_send(s, &answer.h, NULL, 0);
}

void mpib_session_close_listen(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	int rc = mpib_broker_close_listen(s->all->broker, &s->owner, ask->id);

	if (rc < 0) {
		mpib_session_refuse(s, &m->h, rc,
				    "this client has no listener %u", ask->id);
		return;
	}
	s->listeners--;
	mpib_session_ok(s, &m->h, ask->id);
}

static bool one_more(struct mpib_session *s, const struct mpib_ctl_header *ask)
{
	return mpib_session_may(s, ask, MPIB_QUOTA_CONNECTIONS, 1) &&
	       mpib_session_may(s, ask, MPIB_QUOTA_REQUESTS, MPIB_REQUESTS);
}

static void answer(struct mpib_session *s, const struct mpib_ctl_header *ask,
		   uint32_t conn, int rc)
{
	if (rc < 0)
		mpib_session_refuse(s, ask, rc, "connection %u: %s", conn,
				    rc == -EINVAL ? "no such index, or in use"
						  : strerror(-rc));
	else
		mpib_session_ok(s, ask, conn);
}

void mpib_session_connect(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_connect *ask = (const void *)m->bytes;
	int rc;

	if (!one_more(s, &m->h))
		return;
	rc = mpib_broker_connect(s->all->broker, &s->owner, ask->conn,
				 ask->traffic_class, &ask->handle);
	answer(s, &m->h, ask->conn, rc);
}

void mpib_session_accept(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_accept *ask = (const void *)m->bytes;
	int rc;

	if (!one_more(s, &m->h))
		return;
	rc = mpib_broker_accept(s->all->broker, &s->owner, ask->listen_id,
				ask->conn);
	if (rc == -ENOENT)
		mpib_session_refuse(s, &m->h, rc,
				    "this client has no listener %u",
				    ask->listen_id);
	else
		answer(s, &m->h, ask->conn, rc);
}

void mpib_session_close(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	int rc = mpib_broker_drop(s->all->broker, &s->owner, ask->id);

	if (rc < 0)
		mpib_session_refuse(s, &m->h, rc,
				    "this client has no connection %u",
				    ask->id);
	else
		mpib_session_ok(s, &m->h, ask->id);
}

void mpib_session_why(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	struct mpib_ctl_text answer = {
		.h = { .type = m->h.type,
		       .id = m->h.id,
		       .len = sizeof(answer) },
	};

	if (ask->id >= MPIB_CONNS_MAX) {
		mpib_session_refuse(s, &m->h, -EINVAL,
				    "there is no connection %u", ask->id);
		return;
	}
	snprintf(answer.text, sizeof(answer.text), "%s",
		 mpib_broker_why(&s->owner, ask->id));
	mpib_session_send(s, &answer.h, NULL, 0);
}

static void on_forgotten(void *arg, int status)
{
	struct mpib_session *s = arg;

	(void)status;
	s->state = MPIB_SESSION_REGIONS;
	mpib_session_advance(s);
}

void mpib_session_drop_conns(struct mpib_session *s)
{
	mpib_broker_forget(s->all->broker, &s->owner, on_forgotten, s);
}
