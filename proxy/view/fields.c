/* SPDX-License-Identifier: Apache-2.0 */
/* JSON fields that several views have in common. */
#include "view/fields.h"

#include <stdlib.h>

static const char *const rail_key[MPIB_RAILS] = { "sout", "sup" };

/* The counters of a rail and their names in JSON. */
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	{ "tx_bytes", offsetof(struct mpib_rail_counts, tx_bytes) },
	{ "rx_bytes", offsetof(struct mpib_rail_counts, rx_bytes) },
	{ "wrs", offsetof(struct mpib_rail_counts, tx_wrs) },
	{ "imms", offsetof(struct mpib_rail_counts, rx_imms) },
	{ "cts", offsetof(struct mpib_rail_counts, cts) },
	{ "posts", offsetof(struct mpib_rail_counts, posts) },
	{ "tx_imms", offsetof(struct mpib_rail_counts, tx_imms) },
	{ "tx_cqes", offsetof(struct mpib_rail_counts, tx_cqes) },
	{ "replays", offsetof(struct mpib_rail_counts, replays) },
	{ "replayed_bytes", offsetof(struct mpib_rail_counts, replayed_bytes) },
};

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
		json_object_set_new(o, rail_key[r], mpib_field_u64(n[r]));
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
	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t value[MPIB_RAILS];

		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			const char *base = (const char *)&n[r];

			value[r] = *(const uint64_t *)(base + fields[i].offset);
		}
		json_object_set_new(o, fields[i].name,
				    mpib_field_by_rail(v, value));
	}
}

void mpib_view_dump(struct mpib_view_part *part, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

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
