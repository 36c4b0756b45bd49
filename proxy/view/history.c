/* SPDX-License-Identifier: Apache-2.0 */
/* The history of the last hour: a ring of samples, and their JSON. */
#include "view/history.h"

#include <errno.h>
#include <stdlib.h>

#include "base/event.h"
#include "view/fields.h"

int mpib_history_init(struct mpib_history *h, unsigned rails)
{
	h->rails = rails;
	h->sample = calloc(MPIB_HISTORY_KEPT, sizeof(*h->sample));
	h->rail = calloc((size_t)MPIB_HISTORY_KEPT * rails, sizeof(*h->rail));
	if (h->sample && h->rail)
		return 0;
	free(h->sample);
	free(h->rail);
	h->sample = NULL;
	h->rail = NULL;
	return -ENOMEM;
}

void mpib_history_add(struct mpib_history *h, const struct mpib_view *v,
		      uint64_t time_ns)
{
	uint32_t at = h->next % MPIB_HISTORY_KEPT;
	struct mpib_history_sample *s = &h->sample[at];
	const struct mpib_snapshot *snap = v->snap;

	*s = (struct mpib_history_sample){
		.time_ns = time_ns,
		.clients = v->clients->usage.attached,
		.connections = snap->conns,
	};
	for (uint32_t i = 0; i < snap->conns; i++) {
		if (snap->conn[i].oldest_ns > s->oldest_ns)
			s->oldest_ns = snap->conn[i].oldest_ns;
	}
	for (unsigned r = 0; r < h->rails; r++) {
		const struct mpib_snap_rail *from = &snap->rail[r];

		h->rail[(size_t)at * h->rails + r] = (struct mpib_history_rail){
			.tx = from->n.tx_bytes,
			.rx = from->n.rx_bytes,
			.errors = (uint32_t)from->cqe_errors,
			.down = !from->up || from->drained,
		};
	}
	h->next++;
}

/* Return the rate between two counts in Mb/s, and add it to *sum in Gb/s. If
 * the counter was reset in between, return null. */
static json_t *history_rate(uint64_t now, uint64_t was, double seconds,
			    double *sum)
{
	double mbps;

	if (now < was || seconds <= 0)
		return json_null();
	mbps = (double)(now - was) / 125e3 / seconds;
	*sum += mbps / 1e3;
	return json_integer((json_int_t)mbps);
}

/* List the jobs that ran at any time within a sample. */
static json_t *history_jobs(const struct mpib_view *v, uint64_t from,
			    uint64_t to)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < MPIB_JOBS; i++) {
		const struct mpib_job *j = &v->clients->jobs.job[i];

		if (j->clients && j->began_ns <= to &&
		    (!j->ended_ns || j->ended_ns >= from))
			json_array_append_new(
				list, j->label[0] ? json_string(j->label)
						  : mpib_field_job(j->number));
	}
	return list;
}

/* Describe the time from sample `was` to sample `now`. */
static json_t *history_row(const struct mpib_view *v, uint32_t was,
			   uint32_t now)
{
	const struct mpib_history *h = v->history;
	const struct mpib_history_sample *a = &h->sample[was];
	const struct mpib_history_sample *b = &h->sample[now];
	double seconds = ((double)b->time_ns - (double)a->time_ns) / 1e9;
	json_t *tx = json_object(), *rx = json_object(), *down = json_array();
	struct {
		double tx, rx;
	} of[MPIB_RAILS] = { 0 };
	json_int_t errors = 0;

	for (unsigned r = 0; r < h->rails; r++) {
		const struct mpib_history_rail *x =
			&h->rail[(size_t)was * h->rails + r];
		const struct mpib_history_rail *y =
			&h->rail[(size_t)now * h->rails + r];
		const char *label = v->rail[r].label;
		unsigned n = r % v->cfg->engine.rails;

		json_object_set_new(
			tx, label,
			history_rate(y->tx, x->tx, seconds, &of[n].tx));
		json_object_set_new(
			rx, label,
			history_rate(y->rx, x->rx, seconds, &of[n].rx));
		errors += y->errors - x->errors;
		if (y->down)
			json_array_append_new(down, json_string(label));
	}
	return json_pack("{sf so so s{sf sf} s{sf sf} sI so sI sI sf so}",
			 "time", (double)b->time_ns / 1e9, "tx_mbps", tx,
			 "rx_mbps", rx, "sout", "tx_gbps", of[0].tx, "rx_gbps",
			 of[0].rx, "sup", "tx_gbps", of[1].tx, "rx_gbps",
			 of[1].rx, "errors", errors, "down", down, "clients",
			 (json_int_t)b->clients, "connections",
			 (json_int_t)b->connections, "oldest_s",
			 (double)b->oldest_ns / 1e9, "jobs",
			 history_jobs(v, a->time_ns, b->time_ns));
}

/* Return the oldest stored sample that has a predecessor. */
static uint32_t history_oldest(const struct mpib_history *h)
{
	return h->next > MPIB_HISTORY_KEPT ? h->next - MPIB_HISTORY_KEPT + 1
					   : 1;
}

static json_t *history_row_of(const struct mpib_view *v, uint32_t n)
{
	return history_row(v, (n - 1) % MPIB_HISTORY_KEPT,
			   n % MPIB_HISTORY_KEPT);
}

/* Return the first sample that is at most `seconds` old. */
static uint32_t history_from(const struct mpib_history *h, uint64_t seconds)
{
	uint32_t n = history_oldest(h);
	uint64_t newest;

	if (h->next == 0)
		return 1;
	newest = h->sample[(h->next - 1) % MPIB_HISTORY_KEPT].time_ns;
	while (n < h->next && h->sample[n % MPIB_HISTORY_KEPT].time_ns +
					      seconds * 1000000000 <=
				      newest)
		n++;
	return n;
}

void mpib_view_history_part(const struct mpib_view *v, uint64_t seconds,
			    struct mpib_view_part *part)
{
	static const struct mpib_history nothing;
	const struct mpib_history *h = v->history ? v->history : &nothing;
	unsigned made = 0;

	if (part->at == 0) {
		fprintf(part->out, "{\"period_s\":%d,\"samples\":[",
			MPIB_HISTORY_PERIOD_S);
		part->at = history_from(h, seconds);
	}
	/* Since the last part, a new sample may have overwritten the oldest. */
	if (part->at < history_oldest(h))
		part->at = history_oldest(h);
	for (; part->at < h->next && made < MPIB_VIEW_PART; made++)
		mpib_view_item(part, history_row_of(v, part->at++));
	part->more = part->at < h->next;
	if (!part->more)
		fputs("]}", part->out);
}

/* The journal of events as JSON. */

static const char *const level_name[] = { "error", "warn", "info", "debug" };

/* Add the rail to an event that concerns one rail. */
static void events_add_rail(json_t *o, const struct mpib_view *v,
			    uint32_t rails)
{
	unsigned r = (unsigned)__builtin_ctz(rails | 1u << 31);

	if (rails != 1u << r)
		return;
	json_object_set_new(
		o, "rail",
		json_string(mpib_rail_name(r % v->cfg->engine.rails)));
	json_object_set_new(o, "net",
			    json_string(mpib_config_rail_device(v->cfg, r)));
}

static json_t *events_event(const struct mpib_view *v,
			    const struct mpib_event *e)
{
	json_t *o = json_pack("{sI sf ss ss}", "seq", (json_int_t)e->seq,
			      "time", (double)e->time_ns / 1e9, "level",
			      level_name[e->level], "kind", e->kind);

	json_object_set_new(o, "text", mpib_field_text(e->text));
	events_add_rail(o, v, e->rails);
	if (e->client)
		json_object_set_new(o, "client", json_integer(e->client));
	if (e->peer[0])
		json_object_set_new(o, "peer", json_string(e->peer));
	if (e->ns)
		json_object_set_new(o, "duration_s",
				    json_real((double)e->ns / 1e9));
	if (e->bytes)
		json_object_set_new(o, "bytes",
				    json_integer((json_int_t)e->bytes));
	return o;
}

json_t *mpib_view_events(const struct mpib_view *v, uint64_t since)
{
	struct mpib_event *list = calloc(MPIB_EVENTS, sizeof(*list));
	uint64_t last, lost = 0;
	json_t *out;
	unsigned n;

	if (!list)
		return NULL;
	out = json_array();
	n = mpib_events_after(since, list, MPIB_EVENTS, &last);
	if (n)
		lost = list[0].seq - since - 1;
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(out, events_event(v, &list[i]));
	free(list);
	return json_pack("{sI sI so}", "last", (json_int_t)last, "lost",
			 (json_int_t)lost, "events", out);
}
