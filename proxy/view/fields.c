/* SPDX-License-Identifier: Apache-2.0 */
/* JSON fields that several views have in common. */
#include "view/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const char *const rail_key[MPIB_RAILS] = { "sout", "sup" };

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
