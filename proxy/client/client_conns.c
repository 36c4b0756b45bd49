/* SPDX-License-Identifier: Apache-2.0 */
/* A client's requests about listeners and connections, passed to the broker of
 * the peer room. Control thread. */
#include <errno.h>
#include <mpib/control.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/client.h"

static const char *listen_error(int rc)
{
	switch (rc) {
	case -ENOSPC:
		return "this node's processes have all there are (close some)";
	case -EEXIST:
		return "another has its nonce";
	default:
		return strerror(-rc);
	}
}

void proxy_client_listen(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_listen *ask = (const void *)m->bytes;
	struct mpib_ctl_listening answer = {
		.h = { .type = m->h.type,
		       .id = m->h.id,
		       .len = sizeof(answer) },
	};
	int rc;

	if (!proxy_client_may(s, &m->h, MPIB_QUOTA_LISTENERS, 1))
		return;
	rc = mpib_broker_listen(s->all->broker, &s->peer_client, ask->nonce,
				&answer.listen_id, &answer.handle);
	if (rc < 0) {
		proxy_client_refuse(s, &m->h, rc, "no further listener: %s",
				    listen_error(rc));
		return;
	}
	s->listeners++;
	proxy_client_send(s, &answer.h, NULL, 0);
}

void proxy_client_close_listen(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	int rc = mpib_broker_close_listen(s->all->broker, &s->peer_client,
					  ask->id);

	if (rc < 0) {
		proxy_client_refuse(s, &m->h, rc,
				    "this client has no listener %u", ask->id);
		return;
	}
	mpib_sum_less(&s->listeners);
	proxy_client_ok(s, &m->h, ask->id);
}

static bool one_more(struct proxy_client *s, const struct mpib_ctl_header *ask)
{
	return proxy_client_may(s, ask, MPIB_QUOTA_CONNECTIONS, 1) &&
	       proxy_client_may(s, ask, MPIB_QUOTA_REQUESTS, MPIB_REQUESTS);
}

static const char *conn_error(int rc)
{
	switch (rc) {
	case -EINVAL:
		return "no such index, or in use, or the handle, key or "
		       "number is none";
	case -EEXIST:
		return "another connection of this user has its key";
	case -EACCES:
		return "the peer's address is in none of the networks of the "
		       "proxies (the operator gives them: peer.networks)";
	case -EDQUOT:
		return "too many peers that this user wants do not answer "
		       "(close what waits for them)";
	case -ENOSPC:
		return "the proxy has too many peers (close what waits for "
		       "some)";
	default:
		return strerror(-rc);
	}
}

static void conn_answer(struct proxy_client *s,
			const struct mpib_ctl_header *ask, uint32_t conn,
			int rc)
{
	if (rc < 0)
		proxy_client_refuse(s, ask, rc, "connection %u: %s", conn,
				    conn_error(rc));
	else
		proxy_client_ok(s, ask, conn);
}

void proxy_client_connect(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_connect *ask = (const void *)m->bytes;
	int rc;

	if (ask->traffic_class > 0 && ask->traffic_class <= UINT8_MAX &&
	    !mpib_config_class(s->all->cfg, (unsigned)ask->traffic_class)) {
		proxy_client_refuse(s, &m->h, -EPERM,
				    "traffic class %d is not for clients here "
				    "(the operator lists those that are: "
				    "qp.traffic_classes)",
				    ask->traffic_class);
		return;
	}
	if (!one_more(s, &m->h))
		return;
	rc = mpib_broker_connect(s->all->broker, &s->peer_client, ask);
	conn_answer(s, &m->h, ask->conn, rc);
}

void proxy_client_accept(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_accept *ask = (const void *)m->bytes;
	int rc;

	if (!one_more(s, &m->h))
		return;
	rc = mpib_broker_accept(s->all->broker, &s->peer_client, ask->listen_id,
				ask->conn);
	if (rc == -ENOENT)
		proxy_client_refuse(s, &m->h, rc,
				    "this client has no listener %u",
				    ask->listen_id);
	else
		conn_answer(s, &m->h, ask->conn, rc);
}

void proxy_client_resume(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_resume *ask = (const void *)m->bytes;

	if (one_more(s, &m->h))
		conn_answer(s, &m->h, ask->conn,
			    mpib_broker_resume(s->all->broker, &s->peer_client,
					       ask));
}

/* One that does not read it looks by itself. */
void proxy_client_conns_lost(struct peer_client *client)
{
	struct proxy_client *s =
		container_of(client, struct proxy_client, peer_client);
	const struct mpib_ctl_header lost = { .type = MPIB_CTL_LOST,
					      .len = sizeof(lost) };

	if (s->state == PROXY_CLIENT_LIVE)
		mpib_message_send(s->sock, &lost, NULL, 0);
}

void proxy_client_close(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	int rc = mpib_broker_drop(s->all->broker, &s->peer_client, ask->id);

	if (rc < 0)
		proxy_client_refuse(s, &m->h, rc,
				    "this client has no connection %u",
				    ask->id);
	else
		proxy_client_ok(s, &m->h, ask->id);
}

void proxy_client_why(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	struct mpib_ctl_text answer = {
		.h = { .type = m->h.type,
		       .id = m->h.id,
		       .len = sizeof(answer) },
	};

	if (ask->id >= MPIB_INDEXES_MAX) {
		proxy_client_refuse(s, &m->h, -EINVAL,
				    "there is no connection %u", ask->id);
		return;
	}
	snprintf(answer.text, sizeof(answer.text), "%s",
		 mpib_broker_why(&s->peer_client, ask->id));
	proxy_client_send(s, &answer.h, NULL, 0);
}
