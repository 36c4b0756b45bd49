/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl why as JSON: the split of each sending connection, and its reason. */
#include "view/view.h"

#include "agent/agent.h"
#include "view/fields.h"

static const char *const rail_key[MPIB_RAILS] = { "sout", "sup" };

/* The measurements that a split may be based on, per rail of a lane. */
static json_t *why_tracks(const struct mpib_view *v,
			  const struct mpib_snap_lane *lane)
{
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++) {
		const struct mpib_snap_track *t = &lane->track[r];

		json_object_set_new(
			o, rail_key[r],
			json_pack("{sI sI sI sI sI sI}", "rtt_ns",
				  (json_int_t)t->srtt, "latency_ns",
				  (json_int_t)t->latency, "acked_bytes",
				  (json_int_t)t->acked_bytes, "busy_ns",
				  (json_int_t)t->busy_ns, "inflight_bytes",
				  (json_int_t)t->inflight, "oldest_ns",
				  (json_int_t)t->oldest_ns));
	}
	return o;
}

json_t *mpib_view_spread(const struct mpib_view *v,
			 const struct mpib_snap_lane *lane)
{
	json_t *above = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_object_set_new(
			above, rail_key[r],
			lane->spread_above[r] == UINT32_MAX
				? json_null()
				: json_integer(lane->spread_above[r]));
	return json_pack("{ss so sI}", "mode",
			 mpib_spread_name((enum mpib_spread)lane->spread),
			 "above", above, "late", (json_int_t)lane->late);
}

/* The reason that an agent gave for a hint. */
static json_t *why_agent(const struct mpib_view *v, uint32_t slot)
{
	const struct mpib_agent_reason *r = mpib_agent_reason(v->agent, slot);

	if (!r)
		return json_null();
	return json_pack("{ss sI so}", "why", r->why, "since",
			 (json_int_t)r->since, "sup_bw",
			 r->sup_bw > MPIB_HINT_SUP_BW_MAX
				 ? json_null()
				 : json_integer(r->sup_bw));
}

json_t *mpib_view_agent(const struct mpib_view *v)
{
	pid_t pid;
	const struct mpib_agent_summary *s = mpib_agent_heard(v->agent, &pid);
	json_t *rails = json_array();

	for (unsigned r = 0; s && r < MPIB_RAILS; r++)
		json_array_append_new(
			rails,
			json_pack("{ss ss ss so}", "rail", mpib_rail_name(r),
				  "state",
				  s->sick & 1u << r	   ? "left"
				  : s->congested & 1u << r ? "eased"
							   : "well",
				  "why", s->rail[r].why, "since",
				  s->rail[r].since
					  ? mpib_field_u64(s->rail[r].since)
					  : json_null()));
	if (s)
		return json_pack(
			"{sI sb ss ss ss sI so}", "pid", (json_int_t)pid,
			"dry_run", (s->flags & MPIB_AGENT_DRY) != 0, "config",
			s->config, "fault", s->fault, "island", s->island,
			"windows", (json_int_t)s->windows, "rails", rails);
	json_decref(rails);
	return json_null();
}

static json_t *why_one(const struct mpib_view *v,
		       const struct mpib_snap_conn *f)
{
	const struct mpib_snap_lane *lane = &v->snap->lane[f->lane];

	return json_pack(
		"{sI sI ss sI sI ss ss sI sI ss sf so so so so sI sI}",
		"client", (json_int_t)f->client, "index", (json_int_t)f->index,
		"peer", f->peer, "uid", (json_int_t)lane->uid, "traffic_class",
		(json_int_t)lane->traffic_class, "mode",
		mpib_mode_name((enum mpib_mode)v->cfg->engine.mode), "path",
		mpib_path_name((enum mpib_path)lane->path), "sup_bw",
		(json_int_t)f->why.sup_bw, "small_bytes",
		(json_int_t)f->why.small, "source",
		mpib_split_source_name(f->why.source), "age_s",
		(double)f->why.age_ns / 1e9, "hint_slot",
		f->why.hint_slot == UINT32_MAX ? json_null()
					       : json_integer(f->why.hint_slot),
		"agent", why_agent(v, f->why.hint_slot), "rails",
		why_tracks(v, lane), "spread", mpib_view_spread(v, lane),
		"weight", (json_int_t)f->weight, "limit_mbps",
		(json_int_t)(f->rate / 125000));
}

static bool why_asked(const struct mpib_view *v, uint64_t which,
		      const struct mpib_snap_conn *f)
{
	uint32_t client = (uint32_t)(which >> 32), index = (uint32_t)which;

	return f->sender && f->lane < v->snap->lanes &&
	       (!client || f->client == client) &&
	       (index == UINT32_MAX || f->index == index);
}

bool mpib_view_why_any(const struct mpib_view *v, uint64_t which)
{
	for (uint32_t i = 0; i < v->snap->conns; i++) {
		if (why_asked(v, which, &v->snap->conn[i]))
			return true;
	}
	return false;
}

void mpib_view_why_part(const struct mpib_view *v, uint64_t which,
			struct mpib_view_part *part)
{
	const struct mpib_snapshot *snap = v->snap;
	uint32_t made = 0;

	if (part->at == 0)
		fputc('[', part->out);
	for (; part->at < snap->conns && made < MPIB_VIEW_PART; part->at++) {
		if (!why_asked(v, which, &snap->conn[part->at]))
			continue;
		mpib_view_item(part, why_one(v, &snap->conn[part->at]));
		made++;
	}
	part->more = part->at < snap->conns;
	if (!part->more)
		fputc(']', part->out);
}
