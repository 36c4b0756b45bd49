/* SPDX-License-Identifier: Apache-2.0 */
/* JSON fields that several views share. */
#include "view/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"

const char *const mpib_rail_key[MPIB_RAILS] = { "sout", "sup" };

json_t *mpib_field_text(const char *text)
{
	char *plain = strdup(text);
	json_t *field;

	if (!plain)
		return NULL;
	mpib_utf8_make(plain);
	field = json_string(plain);
	free(plain);
	return field;
}

json_t *mpib_field_u64(uint64_t n)
{
	return json_integer((json_int_t)n);
}

json_t *mpib_field_net(const struct mpib_view *v, unsigned shard)
{
	unsigned device = mpib_snap_device(v->snap, shard);
	const char *net = v->rail[(size_t)device * v->snap->rails].net;

	return json_string(net ? net : "");
}

json_t *mpib_field_by_rail(const struct mpib_view *v, const uint64_t *n)
{
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_object_set_new(o, mpib_rail_key[r], mpib_field_u64(n[r]));
	return o;
}

json_t *mpib_field_by_rail_u32(const struct mpib_view *v, const uint32_t *n)
{
	const uint64_t wide[MPIB_RAILS] = { n[0], n[1] };

	return mpib_field_by_rail(v, wide);
}

json_t *mpib_field_rank(int32_t rank)
{
	return rank < 0 ? json_null() : json_integer(rank);
}

json_t *mpib_field_job(uint64_t job)
{
	return json_sprintf("0x%llx", (unsigned long long)job);
}

void mpib_field_counts(json_t *o, const struct mpib_view *v,
		       const struct mpib_rail_counts *n)
{
#define X(field, key, ...)                                                     \
	json_object_set_new(                                                   \
		o, key,                                                        \
		mpib_field_by_rail(                                            \
			v, (uint64_t[MPIB_RAILS]){ n[0].field, n[1].field }));
	MPIB_MOVED_COUNTERS(X, X)
#undef X
}

bool mpib_view_part_begin(struct mpib_view_part *part)
{
	if (!part->out)
		part->out = open_memstream(&part->text, &part->len);
	return part->out;
}

char *mpib_view_part_end(struct mpib_view_part *part)
{
	bool failed = !part->out || part->failed || part->more;
	char *text;

	if (part->out)
		failed |= fclose(part->out) != 0;
	text = part->text;
	*part = (struct mpib_view_part){ 0 };
	if (!failed)
		return text;
	free(text);
	return NULL;
}

void mpib_view_dump(struct mpib_view_part *part, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY |
						       MPIB_VIEW_DIGITS)
			   : NULL;

	if (text)
		fputs(text, part->out);
	else
		part->failed = true;
	free(text);
	json_decref(value);
}

void mpib_view_item(struct mpib_view_part *part, json_t *value)
{
	if (part->listed)
		fputc(',', part->out);
	part->listed = true;
	mpib_view_dump(part, value);
}

void mpib_view_list(const struct mpib_view *v, uint64_t arg, uint32_t n,
		    mpib_view_item_fn *item, struct mpib_view_part *part)
{
	for (unsigned made = 0; part->at < n && made < MPIB_VIEW_PART;
	     part->at++) {
		json_t *o = item(v, arg, part->at);

		if (!o)
			continue;
		mpib_view_item(part, o);
		made++;
	}
	part->more = part->at < n;
}

json_t *mpib_view_rail_names(uint8_t mask)
{
	json_t *list = json_array();

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (mask & 1u << r)
			json_array_append_new(list,
					      json_string(mpib_rail_name(r)));
	}
	return list;
}

/* Sum up the connections of a snapshot. */

struct sums_client {
	uint32_t id;
	struct mpib_client_sums sums;
	UT_hash_handle hh;
};

struct mpib_sums {
	struct sums_client *by_id;
	struct sums_client client[]; /* in the order of the snapshot */
};

void mpib_sums_add(struct mpib_rail_counts *sum,
		   const struct mpib_rail_counts *n)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_rail_counts_add(&sum[r], &n[r]);
}

static void sums_open(struct mpib_client_sums *sums,
		      const struct mpib_snap_conn *f)
{
	sums->connections++;
	sums->messages += f->messages;
	mpib_sums_add(sums->n, f->n);
}

static void sums_closed(struct mpib_client_sums *sums,
			const struct mpib_snap_client *c)
{
	sums->messages += c->closed_messages;
	sums->limited = c->held;
	mpib_sums_add(sums->n, c->closed);
}

static struct sums_client *sums_find(const struct mpib_sums *all, uint32_t id)
{
	struct sums_client *c;

	HASH_FIND(hh, all->by_id, &id, sizeof(id), c);
	return c;
}

struct mpib_sums *mpib_sums_all(const struct mpib_snapshot *snap)
{
	struct mpib_sums *all = calloc(
		1, sizeof(*all) + snap->clients * sizeof(all->client[0]));
	struct sums_client *c;

	if (!all)
		return NULL;
	for (uint32_t i = 0; i < snap->clients; i++) {
		c = &all->client[i];
		c->id = snap->client[i].id;
		sums_closed(&c->sums, &snap->client[i]);
		HASH_ADD(hh, all->by_id, id, sizeof(c->id), c);
	}
	for (uint32_t i = 0; i < snap->conns; i++) {
		c = sums_find(all, snap->conn[i].client);
		if (c)
			sums_open(&c->sums, &snap->conn[i]);
	}
	return all;
}

const struct mpib_client_sums *mpib_sums_get(const struct mpib_sums *all,
					     uint32_t client)
{
	static const struct mpib_client_sums nothing;
	const struct sums_client *c = sums_find(all, client);

	return c ? &c->sums : &nothing;
}

void mpib_sums_free(struct mpib_sums *all)
{
	HASH_CLEAR(hh, all->by_id);
	free(all);
}

/* Compute the bytes of closed connections: the bytes of the rails, which count
 * all connections since the start, minus the bytes of open connections. */
void mpib_sums_closed(const struct mpib_snapshot *snap,
		      struct mpib_rail_counts *closed)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		closed[r] = (struct mpib_rail_counts){ 0 };
	for (unsigned r = 0; r < mpib_snap_rails(snap); r++)
		mpib_rail_counts_add(&closed[r % snap->rails],
				     &snap->rail[r].n);
	for (uint32_t i = 0; i < snap->conns; i++) {
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			mpib_rail_counts_sub(&closed[r], &snap->conn[i].n[r]);
	}
}
