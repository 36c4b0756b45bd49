/* SPDX-License-Identifier: Apache-2.0 */
/* Write metrics as text: names, labels, heads and histogram buckets. */
#include "metrics/exposition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/measure/times.h"

enum metrics_family_type {
	FAMILY_COUNTER,
	FAMILY_GAUGE,
	FAMILY_INFO, /* always 1; its labels are the information */
	FAMILY_HISTOGRAM, /* in seconds */
};

/* A family of metrics. Its samples come from one JSON field of each rail,
 * client or other object, or from fill(). */
struct metrics_exposition;
struct metrics_family {
	const char *name; /* without _total and _info; NULL ends the list */
	enum metrics_family_type type;
	const char *help;
	/* Path of the field within a row, such as "share.weight". For an info,
	 * the fields that become the labels, such as "device provider". */
	const char *path;
	const char *by; /* label for the keys, if the field is an object */
	unsigned times; /* multiplies the field's value; 0 means 1 */
	void (*fill)(const struct metrics_exposition *m);
};

/* The families of one kind of object, such as the rails. */
struct metrics_noun {
	mpib_view_fn *rows; /* returns an array or one row; NULL: use fill() */
	const struct metrics_family *families;
	/* Labels of each sample: the label's name and the key of the field with
	 * the label's value. */
	struct {
		const char *name, *key;
	} label[2];
};

/* The state of writing one scrape. */
struct metrics_exposition {
	FILE *out;
	const struct mpib_view *view;
	const struct metrics_family *family;
};

/* The bounds of buckets: 2^`first`, 2^(`first` + `step`), ... 2^`last` ns.
 * There are few buckets, to keep a scrape small. */
struct metrics_bounds {
	unsigned first, last, step;
};

#define LABEL_MAX 200 /* bytes of a value; the rest is cut */

/* The labels of one sample, at most four, as printed: client="7",uid="0". */
struct labels {
	char text[4 * (2 * LABEL_MAX + 32)];
	size_t len;
};

/* Add a label. In the value, escape the backslash, the quote and the
 * newline. */
static void add_label(struct labels *l, const char *name, const char *value)
{
	const char *end = value + strnlen(value, LABEL_MAX);

	l->len += (size_t)sprintf(l->text + l->len, "%s%s=\"",
				  l->len ? "," : "", name);
	for (; value < end; value++) {
		char c = *value;

		if (strchr("\\\"\n", c))
			l->text[l->len++] = '\\';
		if (c == '\n')
			c = 'n';
		l->text[l->len++] = c;
	}
	l->text[l->len++] = '"';
	l->text[l->len] = '\0';
}

static void add_number(struct labels *l, const char *name, json_int_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, n);
	add_label(l, name, text);
}

static void add_field(struct labels *l, const char *name, const json_t *value)
{
	if (json_is_string(value))
		add_label(l, name, json_string_value(value));
	else
		add_number(l, name, json_integer_value(value));
}

static const char *suffix_of(const struct metrics_family *f)
{
	if (f->type == FAMILY_COUNTER)
		return "_total";
	return f->type == FAMILY_INFO ? "_info" : "";
}

/* Write the text before a value. `le` is the bound of a bucket, or "". */
static void put_name(const struct metrics_exposition *m, const char *suffix,
		     const struct labels *l, const char *le)
{
	fprintf(m->out, "mpib_%s%s", m->family->name, suffix);
	if (*le)
		fprintf(m->out, "{%s%sle=\"%s\"}", l->text, l->len ? "," : "",
			le);
	else if (l->len)
		fprintf(m->out, "{%s}", l->text);
	fputc(' ', m->out);
}

static void put_sample(const struct metrics_exposition *m,
		       const struct labels *l, uint64_t value)
{
	put_name(m, suffix_of(m->family), l, "");
	fprintf(m->out, "%" PRIu64 "\n", value);
}

static void put_sample_real(const struct metrics_exposition *m,
			    const struct labels *l, double value)
{
	put_name(m, suffix_of(m->family), l, "");
	fprintf(m->out, "%.9g\n", value);
}

static uint64_t hist_below(const struct mpib_hist_counts *h, uint64_t ns)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++) {
		if (mpib_hist_bound(i) <= ns)
			n += h->bucket[i];
	}
	return n;
}

static void put_sample_hist(const struct metrics_exposition *m,
			    const struct labels *l,
			    const struct metrics_bounds *bounds,
			    const struct mpib_hist_counts *h)
{
	for (unsigned bits = bounds->first; bits <= bounds->last;
	     bits += bounds->step) {
		char le[24];

		snprintf(le, sizeof(le), "%.9g", (double)(1ull << bits) / 1e9);
		put_name(m, "_bucket", l, le);
		fprintf(m->out, "%" PRIu64 "\n", hist_below(h, 1ull << bits));
	}
	put_name(m, "_bucket", l, "+Inf");
	fprintf(m->out, "%" PRIu64 "\n", h->count);
	put_name(m, "_sum", l, "");
	fprintf(m->out, "%.9g\n", (double)h->sum / 1e9);
	put_name(m, "_count", l, "");
	fprintf(m->out, "%" PRIu64 "\n", h->count);
}

/* Write the TYPE and HELP lines of a family. An info is written as a gauge,
 * because the format has no type "info". */
static void put_head(const struct metrics_exposition *m)
{
	static const char *const type[] = { "counter", "gauge", "gauge",
					    "histogram" };
	const struct metrics_family *f = m->family;

	fprintf(m->out, "# TYPE mpib_%s%s %s\n# HELP mpib_%s%s %s\n", f->name,
		suffix_of(f), type[f->type], f->name, suffix_of(f), f->help);
}

static void put_value(const struct metrics_exposition *m,
		      const struct labels *l, const json_t *value)
{
	unsigned times = m->family->times ? m->family->times : 1;

	if (json_is_real(value))
		put_sample_real(m, l, json_real_value(value));
	else
		put_sample(m, l,
			   json_is_integer(value)
				   ? (uint64_t)json_integer_value(value) * times
				   : json_is_true(value));
}

/* Write one sample for each member of `object`. */
static void put_members(const struct metrics_exposition *m,
			const struct labels *l, json_t *object)
{
	const char *by = m->family->by, *key;
	unsigned r = 0;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		struct labels one = *l;
		bool rail = !strcmp(by, "rail");

		add_label(&one, by, rail ? mpib_rail_name(r++) : key);
		put_value(m, &one, value);
	}
}

/* Write a sample of an info family. Each label has the name of its field. */
static void put_info(const struct metrics_exposition *m, struct labels *l,
		     const json_t *row)
{
	const char *words = m->family->path;

	for (unsigned i = 0; i < 2; i++) {
		size_t len = strcspn(words, " ");
		char name[16];

		snprintf(name, sizeof(name), "%.*s", (int)len, words);
		add_field(l, name, json_object_get(row, name));
		words += len + (words[len] == ' ');
	}
	put_sample(m, l, 1);
}

/* Return the field at a path such as "share.weight", or NULL. */
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

static void put_row(const struct metrics_exposition *m,
		    const struct metrics_noun *noun, json_t *row)
{
	json_t *value = field_of(row, m->family->path);
	struct labels l = { .len = 0 };

	for (unsigned i = 0; i < 2 && noun->label[i].name; i++) {
		const char *name = noun->label[i].name;

		/* Write the label of the device only if there are several
		 * devices. */
		if (strcmp(name, "net") != 0 || m->view->snap->devices > 1)
			add_field(&l, name,
				  json_object_get(row, noun->label[i].key));
	}
	if (m->family->type == FAMILY_INFO)
		put_info(m, &l, row);
	else if (json_is_object(value))
		put_members(m, &l, value);
	else
		put_value(m, &l, value);
}

/* Write the families of one kind of object. Return false if memory is short. */
static bool put_noun(struct metrics_exposition *m,
		     const struct metrics_noun *noun)
{
	json_t *rows = noun->rows ? noun->rows(m->view) : json_array(), *row;
	size_t i;

	for (m->family = noun->families; rows && m->family->name; m->family++) {
		put_head(m);
		if (m->family->fill)
			m->family->fill(m);
		else if (json_is_object(rows))
			put_row(m, noun, rows);
		json_array_foreach(rows, i, row) put_row(m, noun, row);
	}
	json_decref(rows);
	return rows;
}

/* Metrics that are not fields of a JSON row: histograms of times, and
 * quotas. */

#define USERS 8 /* maximum number of users with their own series */

/* Buckets that grow by a factor of 4, from 1 us. */
static const struct metrics_bounds of_node = { 10, MPIB_HIST_HIGH_BITS, 2 };
/* 16 us, 262 us, 4 ms, 67 ms, 1 s. Each client has these buckets, so there are
 * only five. */
static const struct metrics_bounds of_client = { 14, 30, 4 };

static void times_one(const struct metrics_exposition *m, bool sender,
		      enum mpib_time which, const char *label,
		      const char *value)
{
	struct mpib_hist_counts h = { 0 };
	struct labels l = { .len = 0 };

	add_label(&l, label, value);
	if (m->view->engine)
		mpib_engine_times(m->view->engine, sender, which, &h);
	put_sample_hist(m, &l, &of_node, &h);
}

static void fill_request_seconds(const struct metrics_exposition *m)
{
	times_one(m, true, MPIB_TIME_SUBMIT_DONE, "direction", "send");
	times_one(m, false, MPIB_TIME_SUBMIT_DONE, "direction", "recv");
}

static void fill_completion_seconds(const struct metrics_exposition *m)
{
	static const enum mpib_time by_rail[MPIB_RAILS] = {
		MPIB_TIME_POST_SOUT, MPIB_TIME_POST_SUP
	};

	for (unsigned r = 0; r < m->view->snap->rails; r++)
		times_one(m, true, by_rail[r], "rail", mpib_rail_name(r));
}

static void client_times(const struct metrics_exposition *m,
			 const struct proxy_client *client, bool sender)
{
	struct mpib_hist_counts h = { 0 };
	struct labels l = { .len = 0 };

	add_number(&l, "client", client->id);
	add_number(&l, "uid", client->uid);
	add_label(&l, "direction", sender ? "send" : "recv");
	if (m->view->engine)
		mpib_engine_client_times(client->peer_client.engine_client,
					 sender, &h);
	put_sample_hist(m, &l, &of_client, &h);
}

static void fill_client_seconds(const struct metrics_exposition *m)
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

static void fill_user(const struct metrics_exposition *m, uid_t uid)
{
	const struct proxy_clients *all = m->view->clients;

	for (unsigned q = 0; q < MPIB_QUOTAS; q++) {
		struct labels l = { .len = 0 };
		uint64_t limit = all->most[q];

		if (q == MPIB_QUOTA_MESSAGES || limit == 0)
			continue;
		add_number(&l, "uid", uid);
		add_label(&l, "resource", mpib_quota_name(q));
		put_sample_real(m, &l,
				(double)mpib_quota_used(all, uid, q) /
					(double)limit);
	}
}

static void fill_quotas(const struct metrics_exposition *m)
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

static const struct metrics_family filled_families[] = {
	{ "request_seconds", FAMILY_HISTOGRAM,
	  "Time from a request's submission to its completion.",
	  .fill = fill_request_seconds },
	{ "rail_completion_seconds", FAMILY_HISTOGRAM,
	  "Time from a post to its completion.",
	  .fill = fill_completion_seconds },
	{ "client_request_seconds", FAMILY_HISTOGRAM,
	  "Time from the submission of a client's request to its completion.",
	  .fill = fill_client_seconds },
	{ "quota_used_ratio", FAMILY_GAUGE,
	  "Share of a user's quota that is used.", .fill = fill_quotas },
	{ 0 },
};

/* All metrics: JSON fields of the proxy, its rails, threads and clients. */

#define FAMILY(kind, name, help, path, by, times)                              \
	{                                                                      \
		name, FAMILY_##kind, help, path, by, times, NULL               \
	}
#define COUNTER_BY(name, help, path, by)                                       \
	FAMILY(COUNTER, name, help, path, by, 0)
#define COUNTER(name, help, path) COUNTER_BY(name, help, path, NULL)
#define GAUGE_BY(name, help, path, by) FAMILY(GAUGE, name, help, path, by, 0)
#define GAUGE(name, help, path) GAUGE_BY(name, help, path, NULL)
/* A speed whose field is in Mb/s. */
#define SPEED(name, help, path) FAMILY(GAUGE, name, help, path, NULL, 125000)
#define INFO(name, help, labels) FAMILY(INFO, name, help, labels, NULL, 0)
/* Counters from the lists of engine/measure/counters.h. */
#define MOVED(f, key, name, help) COUNTER(name, help, #f),
#define COUNTED(f, key, name, help) COUNTER(name, help, key),
#define NO_METRIC(f, key, what)

/* clang-format off */
static const struct metrics_family of_proxy[] = {
	INFO("build", "Version of the proxy and of its client ABI.",
	     "version abi"),
	GAUGE("uptime_seconds", "Time since the proxy began to serve.", "uptime_s"),
	GAUGE("lanes", "Lanes to peers.", "lanes"),
	GAUGE("lanes_broken", "Broken lanes, whose connections fail.",
	      "broken_lanes"),
	GAUGE("connections", "Open connections.", "connections"),
	GAUGE("connections_broken", "Open connections that failed.",
	      "broken_connections"),
	GAUGE("requests_outstanding", "Requests that are not completed.",
	      "outstanding"),
	GAUGE("oldest_request_seconds",
	      "Age of the oldest request that is not completed.", "oldest_s"),
	GAUGE("clients", "Processes attached.", "clients"),
	GAUGE("clients_leaving",
	      "Processes that ended, but whose memory is not released yet.",
	      "usage.leaving"),
	GAUGE("regions", "Memory regions registered.", "usage.regions"),
	GAUGE("registered_bytes", "Memory registered for clients.",
	      "usage.registered_bytes"),
	GAUGE("mapped_bytes", "Memory of clients that the proxy maps.", "usage.mapped_bytes"),
	COUNTER_BY("rejected", "Clients, requests, arrivals and peer links that were "
		   "refused.",
		   "rejected", "reason"),
	GAUGE_BY("limit_used_ratio",
		 "Share of a limit that is used.", "limits_used", "resource"),
	{ 0 },
};

static const struct metrics_family of_rails[] = {
	INFO("rail", "Device of each rail.", "device provider"),
	GAUGE("rail_up", "1 when the rail's port is active.", "up"),
	GAUGE("rail_drained", "1 when no new payload is put on the rail.", "drained"),
	GAUGE("rail_standby",
	      "1 when the rail carries payload only if SOUT has failed.",
	      "standby"),
	SPEED("rail_speed_bytes_per_second",
	      "Rated speed of the rail's port, 0 when it is not known.",
	      "speed_mbps"),
	SPEED("rail_expected_bytes_per_second",
	      "Expected speed of the rail's port (hca.speed), 0 if not set.", "expected_mbps"),
	MPIB_MOVED_COUNTERS(MOVED, NO_METRIC)
	MPIB_RAIL_COUNTERS(COUNTED, NO_METRIC)
	GAUGE("srq_free", "Receives that wait in the rail's shared receive queues.",
	      "srq_posted"),
	COUNTER_BY("rail_failovers", "Lanes that failed over from the rail, by cause.",
		   "failover.causes", "cause"),
	COUNTER("rail_failover_seconds",
		"Total time of fail-overs from the rail.", "failover_s"),
	GAUGE("rail_queue_pairs", "Queue pairs that exist.", "qps"),
	{ 0 },
};

static const struct metrics_family of_shards[] = {
	MPIB_SHARD_COUNTERS(COUNTED)
	GAUGE("poll_busy_ratio",
	      "Share of a thread's time in which the thread moved something.",
	      "busy"),
	COUNTER_BY("poll_seconds", "Time of a progress thread in each state.",
		   "time_s", "state"),
	{ 0 },
};

static const struct metrics_family of_clients[] = {
	INFO("client", "Process of each client.", "pid name"),
	COUNTER_BY("client_tx_bytes", "Payload sent by a client.",
		   "tx_bytes", "rail"),
	COUNTER_BY("client_rx_bytes", "Payload received by a client.",
		   "rx_bytes", "rail"),
	GAUGE("client_weight", "Weight of a client among those of its user.", "share.weight"),
	COUNTER("client_limited",
		"Number of times that a limit delayed a client.",
		"share.limited"),
	GAUGE("client_connections", "Open connections of a client.",
	      "connections"),
	GAUGE("client_registered_bytes", "Memory registered for a client.", "registered_bytes"),
	{ 0 },
};
/* clang-format on */

static json_t *first_clients(const struct mpib_view *v)
{
	return mpib_view_clients_first(v, MPIB_METRICS_CLIENTS);
}

static const struct metrics_noun nouns[] = {
	{ mpib_view_info, of_proxy, { { 0 } } },
	{ mpib_view_rails_quick,
	  of_rails,
	  { { "rail", "name" }, { "net", "net" } } },
	{ mpib_view_shards, of_shards, { { "thread", "shard" } } },
	{ first_clients, of_clients, { { "client", "id" }, { "uid", "uid" } } },
	{ NULL, filled_families, { { 0 } } },
	{ 0 },
};

char *mpib_metrics_text(const struct mpib_view *v)
{
	struct metrics_exposition m = { .view = v };
	const struct metrics_noun *noun;
	char *text = NULL;
	bool ok = true;
	size_t len;

	m.out = open_memstream(&text, &len);
	if (!m.out)
		return NULL;
	for (noun = nouns; noun->families; noun++)
		ok &= put_noun(&m, noun);
	fputs("# EOF\n", m.out); /* end marker; a comment in this format */
	ok &= !ferror(m.out);
	if (fclose(m.out) == 0 && ok)
		return text;
	free(text);
	return NULL;
}
