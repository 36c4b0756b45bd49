/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the text formats: names, labels, heads and histogram buckets. */
#include "metrics/openmetrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of one sample: two of the noun, and two of the family. */
struct labels {
	struct mpib_label label[4];
	char text[4][24]; /* numbers */
	unsigned count;
};

static void add_label(struct labels *l, const char *name, const json_t *value)
{
	const char *text = json_string_value(value);
	unsigned n = l->count++;

	snprintf(l->text[n], sizeof(l->text[n]), "%" JSON_INTEGER_FORMAT,
		 json_integer_value(value));
	l->label[n] = (struct mpib_label){ name, text ? text : l->text[n] };
}

/* Write text with the escapes that both formats require within quotes. */
static void put_label(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', out);
		if (*text == '\n')
			fputs("\\n", out);
		else
			fputc(*text, out);
	}
}

/* With the bound of a bucket where le is not NULL. */
static void put_labels(FILE *out, const struct mpib_label *l, unsigned labels,
		       const char *le)
{
	for (unsigned i = 0; i < labels; i++) {
		fprintf(out, "%s%s=\"", i ? "," : "{", l[i].name);
		put_label(out, l[i].value);
		fputc('"', out);
	}
	if (le)
		fprintf(out, "%sle=\"%s\"", labels ? "," : "{", le);
	fputs(labels || le ? "} " : " ", out);
}

static void put_name(const struct mpib_exposition *m,
		     const struct mpib_label *l, unsigned labels)
{
	fprintf(m->out, "mpib_%s", m->family->name);
	if (m->family->type == MPIB_FAMILY_COUNTER)
		fputs("_total", m->out);
	else if (m->family->type == MPIB_FAMILY_INFO)
		fputs("_info", m->out);
	put_labels(m->out, l, labels, NULL);
}

void mpib_sample(const struct mpib_exposition *m,
		 const struct mpib_label *label, unsigned labels,
		 uint64_t value)
{
	put_name(m, label, labels);
	fprintf(m->out, "%" PRIu64 "\n", value);
}

void mpib_sample_real(const struct mpib_exposition *m,
		      const struct mpib_label *label, unsigned labels,
		      double value)
{
	put_name(m, label, labels);
	fprintf(m->out, "%.9g\n", value);
}

static uint64_t openmetrics_below(const struct mpib_hist_counts *h, uint64_t ns)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++) {
		if (mpib_hist_bound(i) <= ns)
			n += h->bucket[i];
	}
	return n;
}

void mpib_sample_hist(const struct mpib_exposition *m,
		      const struct mpib_label *label, unsigned labels,
		      const struct mpib_bounds *bounds,
		      const struct mpib_hist_counts *h)
{
	const char *name = m->family->name;

	for (unsigned bits = bounds->first; bits <= bounds->last;
	     bits += bounds->step) {
		char le[24];

		snprintf(le, sizeof(le), "%.9g", (double)(1ull << bits) / 1e9);
		fprintf(m->out, "mpib_%s_bucket", name);
		put_labels(m->out, label, labels, le);
		fprintf(m->out, "%" PRIu64 "\n",
			openmetrics_below(h, 1ull << bits));
	}
	fprintf(m->out, "mpib_%s_bucket", name);
	put_labels(m->out, label, labels, "+Inf");
	fprintf(m->out, "%" PRIu64 "\nmpib_%s_sum", h->count, name);
	put_labels(m->out, label, labels, NULL);
	fprintf(m->out, "%.9g\nmpib_%s_count", (double)h->sum / 1e9, name);
	put_labels(m->out, label, labels, NULL);
	fprintf(m->out, "%" PRIu64 "\n", h->count);
}

/*
 * Write the TYPE, UNIT and HELP lines. OpenMetrics calls a counter's family x
 * and its samples x_total; the Prometheus format calls both x_total, and has no
 * type info, so info families are gauges there.
 */
static void put_head(const struct mpib_exposition *m, bool open)
{
	static const char *const type[] = { "counter", "gauge", "info",
					    "histogram" };
	const struct mpib_family *f = m->family;
	const char *suffix = "";

	if (!open && f->type == MPIB_FAMILY_COUNTER)
		suffix = "_total";
	else if (!open && f->type == MPIB_FAMILY_INFO)
		suffix = "_info";
	fprintf(m->out, "# TYPE mpib_%s%s %s\n", f->name, suffix,
		!open && f->type == MPIB_FAMILY_INFO ? "gauge" : type[f->type]);
	if (open && f->unit)
		fprintf(m->out, "# UNIT mpib_%s %s\n", f->name, f->unit);
	fprintf(m->out, "# HELP mpib_%s%s %s\n", f->name, suffix, f->help);
}

static void put_value(const struct mpib_exposition *m, const struct labels *l,
		      const json_t *value)
{
	unsigned times = m->family->times ? m->family->times : 1;

	if (json_is_real(value))
		mpib_sample_real(m, l->label, l->count, json_real_value(value));
	else
		mpib_sample(m, l->label, l->count,
			    json_is_integer(value)
				    ? (uint64_t)json_integer_value(value) *
					      times
				    : json_is_true(value));
}

/* Members of an object have a sample each. */
static void put_members(const struct mpib_exposition *m, struct labels *l,
			json_t *object)
{
	const char *by = m->family->by, *key;
	unsigned n = l->count++, r = 0;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		bool rail = !strcmp(by, "rail");

		l->label[n] =
			(struct mpib_label){ by,
					     rail ? mpib_rail_name(r++) : key };
		put_value(m, l, value);
	}
}

/* The fields of an info, whose names are those of the labels. */
static void put_info(const struct mpib_exposition *m, struct labels *l,
		     const json_t *row)
{
	const char *words = m->family->path;
	char name[2][16];

	for (unsigned i = 0; i < 2; i++) {
		size_t len = strcspn(words, " ");

		snprintf(name[i], sizeof(name[i]), "%.*s", (int)len, words);
		add_label(l, name[i], json_object_get(row, name[i]));
		words += len + (words[len] == ' ');
	}
	mpib_sample(m, l->label, l->count, 1);
}

/* What a path such as "share.weight" leads to, or NULL. */
static json_t *field_of(json_t *row, const char *path)
{
	while (row && *path) {
		size_t len = strcspn(path, ".");
		char key[32];

		snprintf(key, sizeof(key), "%.*s", (int)len, path);
		row = json_object_get(row, key);
		path += len + (path[len] == '.');
	}
	return row;
}

static void put_row(const struct mpib_exposition *m,
		    const struct mpib_noun *noun, json_t *row)
{
	json_t *value = field_of(row, m->family->path);
	struct labels l = { .count = 0 };

	for (unsigned i = 0; i < 2 && noun->label[i].name; i++) {
		const char *name = noun->label[i].name;

		/* A device is named where there are several. */
		if (strcmp(name, "net") != 0 || m->view->snap->devices > 1)
			add_label(&l, name,
				  json_object_get(row, noun->label[i].key));
	}
	if (m->family->type == MPIB_FAMILY_INFO)
		put_info(m, &l, row);
	else if (json_is_object(value))
		put_members(m, &l, value);
	else
		put_value(m, &l, value);
}

/* False: memory was short. */
static bool put_noun(struct mpib_exposition *m, const struct mpib_noun *noun,
		     bool open)
{
	json_t *rows = noun->rows ? noun->rows(m->view) : json_array(), *row;
	size_t i;

	for (m->family = noun->families; rows && m->family->name; m->family++) {
		put_head(m, open);
		if (m->family->fill)
			m->family->fill(m);
		else if (json_is_object(rows))
			put_row(m, noun, rows);
		json_array_foreach(rows, i, row) put_row(m, noun, row);
	}
	json_decref(rows);
	return rows;
}

char *mpib_metrics_text(const struct mpib_view *v,
			enum mpib_metrics_format format)
{
	struct mpib_exposition m = { .view = v };
	const struct mpib_noun *noun;
	char *text = NULL;
	bool ok = true;
	size_t len;

	m.out = open_memstream(&text, &len);
	if (!m.out)
		return NULL;
	for (noun = mpib_nouns; noun->families; noun++)
		ok &= put_noun(&m, noun, format == MPIB_METRICS_OPENMETRICS);
	fputs("# EOF\n", m.out); /* to Prometheus, a comment */
	ok &= !ferror(m.out);
	if (fclose(m.out) == 0 && ok)
		return text;
	free(text);
	return NULL;
}

/* Metrics that are no field of a noun: histograms of times, and quotas. */

#define USERS 8 /* users with series of their own, longest attached first */

/* Each a factor of 4 wide, from 1 us. */
static const struct mpib_bounds of_node = { 10, MPIB_HIST_HIGH_BITS, 2 };
/* 16 us, 262 us, 4 ms, 67 ms, 1 s: many clients have one of these each. */
static const struct mpib_bounds of_client = { 14, 30, 4 };

static void times_one(const struct mpib_exposition *m, bool sender,
		      enum mpib_time which, struct mpib_label label)
{
	struct mpib_hist_counts h = { 0 };

	if (m->view->engine)
		mpib_engine_times(m->view->engine, sender, which, &h);
	mpib_sample_hist(m, &label, 1, &of_node, &h);
}

static void fill_request_seconds(const struct mpib_exposition *m)
{
	times_one(m, true, MPIB_TIME_SUBMIT_DONE,
		  (struct mpib_label){ "direction", "send" });
	times_one(m, false, MPIB_TIME_SUBMIT_DONE,
		  (struct mpib_label){ "direction", "recv" });
}

static void fill_completion_seconds(const struct mpib_exposition *m)
{
	static const enum mpib_time by_rail[MPIB_RAILS] = {
		MPIB_TIME_POST_SOUT, MPIB_TIME_POST_SUP
	};

	for (unsigned r = 0; r < m->view->snap->rails; r++)
		times_one(m, true, by_rail[r],
			  (struct mpib_label){ "rail", mpib_rail_name(r) });
}

static void client_times(const struct mpib_exposition *m,
			 const struct proxy_client *client, bool sender)
{
	char id[12], uid[12];
	const struct mpib_label label[] = {
		{ "client", id },
		{ "uid", uid },
		{ "direction", sender ? "send" : "recv" },
	};
	struct mpib_hist_counts h = { 0 };

	snprintf(id, sizeof(id), "%u", client->id);
	snprintf(uid, sizeof(uid), "%u", client->uid);
	if (m->view->engine)
		mpib_engine_client_times(client->peer_client.engine_client,
					 sender, &h);
	mpib_sample_hist(m, label, 3, &of_client, &h);
}

static void fill_client_seconds(const struct mpib_exposition *m)
{
	const struct proxy_client *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, &m->view->clients->list, link)
	{
		if (!s->peer_client.engine_client)
			continue;
		if (n++ == MPIB_METRICS_CLIENTS)
			break;
		client_times(m, s, true);
		client_times(m, s, false);
	}
}

static void fill_user(const struct mpib_exposition *m, uid_t uid)
{
	const struct proxy_clients *all = m->view->clients;
	char text[12];

	snprintf(text, sizeof(text), "%u", uid);
	for (unsigned q = 0; q < MPIB_QUOTAS; q++) {
		const struct mpib_label label[] = {
			{ "uid", text }, { "resource", mpib_quota_name(q) }
		};
		uint64_t limit = all->most[q];

		if (q == MPIB_QUOTA_MESSAGES || limit == 0)
			continue;
		mpib_sample_real(m, label, 2,
				 (double)mpib_quota_used(all, uid, q) /
					 (double)limit);
	}
}

static void fill_quotas(const struct mpib_exposition *m)
{
	const struct proxy_client *s;
	uid_t seen[USERS];
	unsigned users = 0;

	TAILQ_FOREACH(s, &m->view->clients->list, link)
	{
		unsigned i = 0;

		while (i < users && seen[i] != s->uid)
			i++;
		if (i < users || users == USERS)
			continue;
		seen[users++] = s->uid;
		fill_user(m, s->uid);
	}
}

const struct mpib_family mpib_filled_families[] = {
	{ "request_seconds", MPIB_FAMILY_HISTOGRAM, "seconds",
	  "Time from a request's submission to its completion.",
	  .fill = fill_request_seconds },
	{ "rail_completion_seconds", MPIB_FAMILY_HISTOGRAM, "seconds",
	  "Time from a post to its completion.",
	  .fill = fill_completion_seconds },
	{ "client_request_seconds", MPIB_FAMILY_HISTOGRAM, "seconds",
	  "Time from the submission of a client's request to its completion.",
	  .fill = fill_client_seconds },
	{ "quota_used_ratio", MPIB_FAMILY_GAUGE, "ratio",
	  "Share of a user's quota that is used.", .fill = fill_quotas },
	{ 0 },
};
