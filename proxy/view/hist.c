/* SPDX-License-Identifier: Apache-2.0 */
/* Latency histograms as JSON. */
#include <errno.h>
#include <string.h>

#include "engine/measure/times.h"
#include "view/fields.h"

static const struct {
	const char *name;
	bool sender;
	enum mpib_time time;
} hists[] = {
	{ "send.submit_post", true, MPIB_TIME_SUBMIT_POST },
	{ "send.post_cqe.sout", true, MPIB_TIME_POST_SOUT },
	{ "send.post_cqe.sup", true, MPIB_TIME_POST_SUP },
	{ "send.submit_done", true, MPIB_TIME_SUBMIT_DONE },
	{ "recv.submit_cts", false, MPIB_TIME_SUBMIT_POST },
	{ "recv.cts_imm.sout", false, MPIB_TIME_POST_SOUT },
	{ "recv.cts_imm.sup", false, MPIB_TIME_POST_SUP },
	{ "recv.submit_done", false, MPIB_TIME_SUBMIT_DONE },
};

#define HISTS (sizeof(hists) / sizeof(hists[0]))

static void read_all(const struct mpib_view *v, unsigned which,
		     struct mpib_hist_counts *h)
{
	memset(h, 0, sizeof(*h));
	if (v->engine)
		mpib_engine_times(v->engine, hists[which].sender,
				  hists[which].time, h);
}

static json_t *hist_quantiles(const struct mpib_hist_counts *h)
{
	return json_pack("{sI sI sI sI sI sI sI}", "count",
			 (json_int_t)h->count, "sum_ns", (json_int_t)h->sum,
			 "p50_ns", (json_int_t)mpib_hist_quantile(h, 0.5),
			 "p90_ns", (json_int_t)mpib_hist_quantile(h, 0.9),
			 "p99_ns", (json_int_t)mpib_hist_quantile(h, 0.99),
			 "p999_ns", (json_int_t)mpib_hist_quantile(h, 0.999),
			 "max_ns", (json_int_t)h->max);
}

/* Return [[bound, count], ...]: a bucket counts times below its bound, in ns.
 * Empty buckets are left out. The last bucket has no limit, so its bound is
 * null. */
static json_t *hist_buckets(const struct mpib_hist_counts *h)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++) {
		uint64_t bound = mpib_hist_bound(i);

		if (h->bucket[i] == 0)
			continue;
		json_array_append_new(list,
				      json_pack("[o, I]",
						bound == UINT64_MAX
							? json_null()
							: mpib_field_u64(bound),
						(json_int_t)h->bucket[i]));
	}
	return list;
}

json_t *mpib_view_hists(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < HISTS; i++) {
		struct mpib_hist_counts h;
		json_t *o;

		read_all(v, i, &h);
		o = hist_quantiles(&h);
		json_object_set_new(o, "name", json_string(hists[i].name));
		json_array_append_new(list, o);
	}
	return list;
}

int mpib_view_hist_find(const char *name)
{
	for (unsigned i = 0; i < HISTS; i++) {
		if (!strcmp(name, hists[i].name))
			return (int)i;
	}
	return -ENOENT;
}

/* Return one histogram without its connections. */
static json_t *hist_one(const struct mpib_view *v, unsigned which)
{
	struct mpib_hist_counts h;
	json_t *o;

	read_all(v, which, &h);
	o = hist_quantiles(&h);
	json_object_set_new(o, "name", json_string(hists[which].name));
	json_object_set_new(o, "buckets", hist_buckets(&h));
	return o;
}

/* Return the row of a connection. NULL: `arg` excludes the connection, or it
 * was closed after the snapshot. */
static json_t *hist_conn(const struct mpib_view *v, uint64_t arg, uint32_t i)
{
	const struct mpib_snap_conn *f = &v->snap->conn[i];
	uint32_t which = (uint32_t)(arg >> 32), client = (uint32_t)arg;
	const struct proxy_client *s =
		proxy_clients_known(v->clients, f->client);
	struct mpib_hist_counts h = { 0 };
	json_t *o;

	if ((client && f->client != client) ||
	    f->sender != hists[which].sender || !v->engine || !s ||
	    mpib_engine_conn_times(s->peer_client.engine_client, f->index,
				   hists[which].time, &h) < 0)
		return NULL;
	o = hist_quantiles(&h);
	json_object_set_new(o, "client", json_integer(f->client));
	json_object_set_new(o, "index", json_integer(f->index));
	json_object_set_new(o, "peer", json_string(f->peer));
	json_object_set_new(o, "local_rank", mpib_field_rank(f->local_rank));
	json_object_set_new(o, "remote_rank", mpib_field_rank(f->remote_rank));
	return o;
}

/* Write the histogram except for its connections. */
static void hist_head(const struct mpib_view *v, unsigned which,
		      struct mpib_view_part *part)
{
	json_t *o = hist_one(v, which), *value;
	const char *key;

	fputc('{', part->out);
	json_object_foreach(o, key, value)
	{
		fprintf(part->out, "\"%s\":", key);
		mpib_view_dump(part, json_incref(value));
		fputc(',', part->out);
	}
	part->failed |= !o;
	json_decref(o);
	fputs("\"connections\":[", part->out);
}

void mpib_view_hist_part(const struct mpib_view *v, uint64_t arg,
			 struct mpib_view_part *part)
{
	if (part->at == 0)
		hist_head(v, (unsigned)(arg >> 32), part);
	mpib_view_list(v, arg, v->snap->conns, hist_conn, part);
	if (!part->more)
		fputs("]}", part->out);
}
