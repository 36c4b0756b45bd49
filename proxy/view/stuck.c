/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that hang, and connections that hang while they are set up. */
#include <stdlib.h>

#include "view/fields.h"

static json_t *stuck_request(const struct mpib_view *v,
			     const struct mpib_snap_request *q)
{
	const struct mpib_snap_conn *f = &v->snap->conn[q->conn];
	const struct proxy_client *s =
		proxy_clients_known(v->clients, f->client);

	return json_pack(
		"{sI ss sI sI sI so sI ss ss so so sf sI sI so ss ss}",
		"client", (json_int_t)f->client, "client_name",
		s ? s->name : "", "pid", (json_int_t)(s ? s->pid : 0), "uid",
		(json_int_t)(s ? s->uid : 0), "job",
		(json_int_t)(s ? s->job : 0), "job_id",
		mpib_field_job(s ? s->job : 0), "index", (json_int_t)f->index,
		"direction", f->sender ? "send" : "recv", "peer", f->peer,
		"local_rank", mpib_field_rank(f->local_rank), "remote_rank",
		mpib_field_rank(f->remote_rank), "age_s",
		(double)q->age_ns / 1e9, "bytes", (json_int_t)q->bytes, "done",
		(json_int_t)q->done, "rails", mpib_view_rail_names(q->rails),
		"last", mpib_last_word(q->last), "text",
		mpib_last_text(q->last));
}

struct adding {
	const struct proxy_client *client;
	json_t *list;
};

static void add_pending(void *arg, const struct mpib_pending *p)
{
	const struct adding *to = arg;
	const struct proxy_client *s = to->client;

	json_array_append_new(
		to->list,
		json_pack("{sI ss sI sI so sI ss ss sf ss}", "client",
			  (json_int_t)s->id, "client_name", s->name, "pid",
			  (json_int_t)s->pid, "uid", (json_int_t)s->uid,
			  "job_id", mpib_field_job(s->job), "index",
			  (json_int_t)p->index, "direction",
			  p->sender ? "send" : "recv", "peer", p->peer, "age_s",
			  (double)p->age_ns / 1e9, "text", p->why));
}

static json_t *stuck_connecting(const struct mpib_view *v, uint64_t older_ns)
{
	struct adding to = { .list = json_array() };

	TAILQ_FOREACH(to.client, &v->clients->list, link)
	mpib_broker_pending(&to.client->peer_client, older_ns, add_pending,
			    &to);
	return to.list;
}

static int by_age(const void *a, const void *b)
{
	const struct mpib_snap_request *x = *(void *const *)a;
	const struct mpib_snap_request *y = *(void *const *)b;

	return (x->age_ns < y->age_ns) - (x->age_ns > y->age_ns);
}

json_t *mpib_view_stuck(const struct mpib_view *v, uint64_t older_ns)
{
	const struct mpib_snapshot *snap = v->snap;
	const struct mpib_snap_request **old =
		calloc(snap->requests + 1, sizeof(const void *));
	json_t *list;
	uint32_t n = 0;

	if (!old)
		return NULL;
	list = json_array();
	for (uint32_t i = 0; i < snap->requests; i++) {
		if (snap->request[i].age_ns >= older_ns)
			old[n++] = &snap->request[i];
	}
	qsort(old, n, sizeof(const void *), by_age);
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, stuck_request(v, old[i]));
	free(old);
	return json_pack("{sf so sI so}", "older_s", (double)older_ns / 1e9,
			 "requests", list, "more",
			 (json_int_t)snap->more_requests, "connecting",
			 stuck_connecting(v, older_ns));
}
