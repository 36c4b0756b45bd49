/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of events as JSON, and the sample of mpibctl monitor. */
#include <stdlib.h>

#include "base/event.h"
#include "view/fields.h"

static const char *const level_name[] = { "error", "warn", "info", "debug" };

/* The rail of an event about one rail. */
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

json_t *mpib_view_monitor(const struct mpib_view *v)
{
	uint64_t last;

	mpib_events_after(UINT64_MAX, NULL, 0, &last);
	return json_pack("{sf so so so sI}", "uptime_s", v->uptime_s, "rails",
			 mpib_view_rails(v), "shards", mpib_view_shards(v),
			 "clients", mpib_view_clients(v), "last_event",
			 (json_int_t)last);
}
