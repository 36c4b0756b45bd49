/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the text formats: names, labels, heads and histogram buckets. */
#include "metrics/openmetrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/families.h"

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
	const struct mpib_family *f = m->family;

	fputs(f->name, m->out);
	if (f->type == MPIB_FAMILY_COUNTER)
		fputs("_total", m->out);
	else if (f->type == MPIB_FAMILY_INFO)
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
		fprintf(m->out, "%s_bucket", name);
		put_labels(m->out, label, labels, le);
		fprintf(m->out, "%" PRIu64 "\n",
			openmetrics_below(h, 1ull << bits));
	}
	fprintf(m->out, "%s_bucket", name);
	put_labels(m->out, label, labels, "+Inf");
	fprintf(m->out, "%" PRIu64 "\n%s_sum", h->count, name);
	put_labels(m->out, label, labels, NULL);
	fprintf(m->out, "%.9g\n%s_count", (double)h->sum / 1e9, name);
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
	fprintf(m->out, "# TYPE %s%s %s\n", f->name, suffix,
		!open && f->type == MPIB_FAMILY_INFO ? "gauge" : type[f->type]);
	if (open && f->unit)
		fprintf(m->out, "# UNIT %s %s\n", f->name, f->unit);
	fprintf(m->out, "# HELP %s%s %s\n", f->name, suffix, f->help);
}

/* Choose the clients that get series of their own: the first
 * MPIB_METRICS_CLIENTS of the list. Sum up what their connections moved. */
static void pick_clients(struct mpib_exposition *m)
{
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &m->view->clients->list, link)
	{
		struct mpib_exposed_client *c = &m->client[m->clients];

		if (!s->peer_client.engine_client)
			continue;
		if (m->clients == MPIB_METRICS_CLIENTS)
			break;
		m->clients++;
		c->client = s;
		snprintf(c->id, sizeof(c->id), "%u", s->id);
		snprintf(c->uid, sizeof(c->uid), "%u", s->uid);
		mpib_sums_of_client(m->view->snap, s->id, &c->sums);
	}
}

char *mpib_metrics_text(const struct mpib_view *v,
			enum mpib_metrics_format format)
{
	struct mpib_exposition m = { .view = v };
	char *text = NULL;
	size_t len;
	bool failed;

	m.out = open_memstream(&text, &len);
	if (!m.out)
		return NULL;
	pick_clients(&m);
	for (unsigned i = 0; i < mpib_family_count; i++) {
		m.family = &mpib_families[i];
		put_head(&m, format == MPIB_METRICS_OPENMETRICS);
		m.family->fill(&m);
	}
	fputs("# EOF\n", m.out); /* to Prometheus, a comment */
	failed = ferror(m.out);
	if (fclose(m.out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}
