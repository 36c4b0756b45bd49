/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a cluster as JSON: this node's report and its peers'. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "peer/protocol.h"

/* Nodes in one part of the answer. */
#define PART 16

/* State while a part of the text is made. */
struct cluster_view {
	const struct mpib_cluster *c;
	struct mpib_cluster_text *t;
	uint32_t seen; /* nodes so far */
	/* The settings whose hashes are in a report. */
	const struct mpib_setting *setting[MPIB_REPORT_SETTINGS];
};

static const char *rail_label(const struct mpib_node_report *r, unsigned i,
			      char buf[MPIB_RAIL_LABEL_MAX])
{
	snprintf(buf, MPIB_RAIL_LABEL_MAX, "%s%s%s",
		 r->devices > 1 ? r->device[i / r->rails] : "",
		 r->devices > 1 ? "." : "", mpib_rail_name(i % r->rails));
	return buf;
}

/* Add the faults of rail i to `faults`, and other remarks about that rail to
 * `notes`. */
static void judge_rail(const struct mpib_node_report *r, unsigned i,
		       json_t *faults, json_t *notes)
{
	const struct mpib_report_rail *rail = &r->rail[i];
	char name[MPIB_RAIL_LABEL_MAX];

	rail_label(r, i, name);
	if (!(rail->flags & MPIB_REPORT_UP))
		json_array_append_new(faults, json_sprintf("%s down", name));
	else if (rail->speed_mbps < rail->expected_mbps)
		json_array_append_new(faults,
				      json_sprintf("%s at %u of %u Gb/s", name,
						   rail->speed_mbps / 1000,
						   rail->expected_mbps / 1000));
	if (rail->flags & MPIB_REPORT_DRAINED)
		json_array_append_new(notes, json_sprintf("%s drained", name));
}

/* List the settings whose values differ on the two nodes. Ignore settings that
 * only one of their versions has. */
static json_t *differing(const struct cluster_view *x,
			 const struct mpib_node_report *r)
{
	const struct mpib_node_report *own = &x->c->own;
	json_t *list = json_array();

	for (unsigned i = 0; i < r->settings; i++) {
		unsigned k = i;

		if (k >= own->settings ||
		    own->setting[k].name != r->setting[i].name) {
			k = 0;
			while (k < own->settings &&
			       own->setting[k].name != r->setting[i].name)
				k++;
		}
		if (k < own->settings &&
		    own->setting[k].value != r->setting[i].value)
			json_array_append_new(
				list,
				json_sprintf("%s.%s", x->setting[k]->section,
					     x->setting[k]->key));
	}
	return list;
}

static json_t *view_rails(const struct mpib_node_report *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < (unsigned)r->devices * r->rails; i++) {
		const struct mpib_report_rail *rail = &r->rail[i];
		char label[MPIB_RAIL_LABEL_MAX];

		json_array_append_new(
			list,
			json_pack("{ss ss ss sb sb sI sI sI sI}", "name",
				  mpib_rail_name(i % r->rails), "label",
				  rail_label(r, i, label), "state",
				  rail->flags & MPIB_REPORT_UP ? "active"
							       : "down",
				  "drained",
				  (rail->flags & MPIB_REPORT_DRAINED) != 0,
				  "software",
				  (rail->flags & MPIB_REPORT_SOFT) != 0,
				  "speed_mbps", (json_int_t)rail->speed_mbps,
				  "expected_mbps",
				  (json_int_t)rail->expected_mbps, "errors",
				  (json_int_t)rail->errors, "failovers",
				  (json_int_t)rail->failovers));
	}
	return list;
}

static json_t *view_jobs(const struct mpib_node_report *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->jobs; i++) {
		const struct mpib_report_job *job = &r->job[i];

		json_array_append_new(
			list, json_pack("{ss sI sI sI sI}", "name", job->name,
					"uid", (json_int_t)job->uid, "clients",
					(json_int_t)job->clients, "tx_bytes",
					(json_int_t)job->tx_bytes, "rx_bytes",
					(json_int_t)job->rx_bytes));
	}
	return list;
}

static json_t *view_rank(uint32_t rank)
{
	return rank == UINT32_MAX ? json_null() : json_integer(rank);
}

static json_t *view_waiting(const struct mpib_node_report *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->waiting; i++) {
		const struct mpib_report_wait *wait = &r->wait[i];

		json_array_append_new(
			list,
			json_pack("{ss ss ss ss sI sf so so}", "job", wait->job,
				  "peer", wait->peer, "last", wait->last,
				  "direction", wait->sends ? "send" : "recv",
				  "pid", (json_int_t)wait->pid, "age_s",
				  wait->age_ms / 1e3, "local_rank",
				  view_rank(wait->local_rank), "remote_rank",
				  view_rank(wait->remote_rank)));
	}
	return list;
}

/* Add a node's report about itself. */
static void add_report(const struct cluster_view *x, json_t *o,
		       const struct mpib_node_report *r, json_t *faults,
		       json_t *notes)
{
	uint64_t errors = 0, failovers = 0, speed = 0, expected = 0;
	unsigned up = 0, all = (unsigned)r->devices * r->rails;
	json_t *differs = differing(x, r);

	for (unsigned i = 0; i < all; i++) {
		judge_rail(r, i, faults, notes);
		if (r->rail[i].flags & MPIB_REPORT_UP) {
			speed += r->rail[i].speed_mbps;
			up++;
		}
		expected += r->rail[i].expected_mbps;
		errors += r->rail[i].errors;
		failovers += r->rail[i].failovers;
	}
	if (r->stuck)
		json_array_append_new(faults,
				      json_sprintf("%u stuck", r->stuck));
	if (json_array_size(differs))
		json_array_append_new(faults, json_string("settings differ"));
	if (strcmp(r->version, x->c->own.version) != 0)
		json_array_append_new(notes, json_string("another version"));
	if (r->drain_why[0])
		json_array_append_new(notes, json_sprintf("drained because: %s",
							  r->drain_why));
	json_object_set_new(o, "jobs", view_jobs(r));
	json_object_set_new(o, "waiting", view_waiting(r));
	json_object_update_new(
		o,
		json_pack("{ss sI sI sI sI ss sI sI sI sI sI sI so so}", "host",
			  r->host, "rails_up", (json_int_t)up, "rails_all",
			  (json_int_t)all, "speed_mbps", (json_int_t)speed,
			  "expected_mbps", (json_int_t)expected, "version",
			  r->version, "uptime_s", (json_int_t)r->uptime_s,
			  "clients", (json_int_t)r->clients, "connections",
			  (json_int_t)r->connections, "errors",
			  (json_int_t)errors, "failovers",
			  (json_int_t)failovers, "stuck", (json_int_t)r->stuck,
			  "differs", differs, "rails", view_rails(r)));
}

static void add_node(struct cluster_view *x, json_t *o, json_t *faults,
		     json_t *notes)
{
	if (json_array_size(faults))
		x->t->faulty++;
	else
		x->t->well++;
	json_object_set_new(o, "faults", faults);
	json_object_set_new(o, "notes", notes);
	mpib_view_item(&x->t->part, o);
}

/* Return whether the next node belongs to this part. */
static bool view_takes(struct cluster_view *x)
{
	struct mpib_view_part *part = &x->t->part;
	uint32_t nth = x->seen++;

	if (nth >= part->at + PART)
		part->more = true;
	return nth >= part->at && nth < part->at + PART;
}

static double view_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void view_told(void *arg, const struct mpib_broker_told *t)
{
	static const char *const state[] = {
		[MPIB_TOLD_WELL] = "answered",
		[MPIB_TOLD_NEW] = "new",
		[MPIB_TOLD_SILENT] = "silent",
		[MPIB_TOLD_UNREACHED] = "unreached",
		[MPIB_TOLD_REFUSED] = "refused",
	};
	struct cluster_view *x = arg;
	json_t *faults, *notes, *o;

	if (!view_takes(x))
		return;
	faults = json_array();
	notes = json_array();
	o = json_pack("{ss sb ss sI sf sf}", "peer", t->peer, "self",
		      t->report == &x->c->own, "state", state[t->state],
		      "protocol", (json_int_t)t->version, "age_s",
		      view_seconds(t->age_ns), "silent_s",
		      view_seconds(t->silent_ns));
	if (t->state == MPIB_TOLD_SILENT)
		json_array_append_new(faults,
				      json_sprintf("silent for %.1f s",
						   view_seconds(t->silent_ns)));
	else if (t->state == MPIB_TOLD_UNREACHED)
		json_array_append_new(
			faults, json_sprintf("not reached: %s",
					     t->why[0] ? t->why : "no link"));
	else if (t->state == MPIB_TOLD_REFUSED)
		json_array_append_new(
			faults,
			json_sprintf("link refused %llu times, last %.0f s "
				     "ago: %s",
				     (unsigned long long)t->refusals,
				     view_seconds(t->refused_ns), t->why));
	if (t->report && t->state != MPIB_TOLD_UNREACHED)
		add_report(x, o, t->report, faults, notes);
	add_node(x, o, faults, notes);
}

static void view_own(struct cluster_view *x)
{
	const struct mpib_cluster *c = x->c;
	const struct mpib_broker_told t = {
		.state = MPIB_TOLD_WELL,
		.peer = c->view->peer_link,
		.version = MPIB_PEER_VERSION,
		.age_ns = mpib_loop_now(c->loop) - c->own_ns,
		.report = &c->own,
	};

	view_told(x, &t);
}

static void cluster_text_drop(struct mpib_cluster *c)
{
	struct mpib_cluster_text *t = &c->text;

	free(mpib_view_part_end(&t->part));
	free(t->whole);
	*t = (struct mpib_cluster_text){ 0 };
}

/* Begin the text of the last round. Readers may still need the previous
 * text. */
static bool text_begin(struct mpib_cluster *c)
{
	struct mpib_cluster_text *t = &c->text;
	char *before = t->whole;

	t->whole = NULL;
	cluster_text_drop(c);
	if (!mpib_view_part_begin(&t->part)) {
		free(before);
		return false;
	}
	t->whole = before;
	t->of_ns = c->over_ns;
	return true;
}

/* End the text: insert the sums before the nodes. */
static void text_end(struct mpib_cluster *c)
{
	struct mpib_cluster_text *t = &c->text;
	char *nodes = mpib_view_part_end(&t->part);

	free(t->whole);
	if (!nodes ||
	    asprintf(&t->whole,
		     "{\"well\":%lld,\"faulty\":%lld,\"took_s\":%.9f,"
		     "\"nodes\":[%s]}",
		     (long long)t->well, (long long)t->faulty,
		     view_seconds(c->over_ns - c->begun_ns), nodes) < 0) {
		t->whole = NULL;
		t->of_ns = 0;
	}
	free(nodes);
}

bool mpib_cluster_text_make(struct mpib_cluster *c)
{
	struct mpib_cluster_text *t = &c->text;
	struct cluster_view x = { .c = c, .t = t };

	if (t->of_ns != c->over_ns && !text_begin(c))
		return false;
	if (!t->part.out)
		return false;
	mpib_cluster_alike(x.setting);
	t->part.more = false;
	view_own(&x);
	mpib_broker_each_told(c->broker, view_told, &x);
	t->part.at += PART;
	if (!t->part.more)
		text_end(c);
	return t->part.more;
}

const char *mpib_cluster_text(const struct mpib_cluster *c)
{
	return c->text.whole;
}
