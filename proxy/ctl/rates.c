/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of rails, clients, connections and peers, from two answers. */
#include "ctl/rates.h"

#include <string.h>

#include "ctl/dial.h"

/* Whether both rows are of the same thing. */
static bool rates_same(const json_t *a, const json_t *b)
{
	static const char *const keys[] = { "label", "name",	 "id",
					    "pid",   "client",	 "index",
					    "peer",  "direction" };

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *x = json_object_get(a, keys[i]);
		const json_t *y = json_object_get(b, keys[i]);

		if (x != y && !json_equal(x, y))
			return false;
	}
	return true;
}

/* Rows keep their order from one answer to the next, so that the search begins
 * where the last one ended. */
const json_t *mpib_rates_find(const json_t *was, const json_t *row,
			      size_t *from)
{
	size_t n = json_array_size(was);

	for (size_t i = 0; i < n; i++) {
		size_t at = (*from + i) % n;

		if (rates_same(json_array_get(was, at), row)) {
			*from = at + 1;
			return json_array_get(was, at);
		}
	}
	return NULL;
}

static json_t *rates_one(const json_t *now, const json_t *was, const char *key,
			 double seconds)
{
	double more = mpib_json_real(now, key) - mpib_json_real(was, key);

	if (seconds <= 0 || more < 0)
		return json_null();
	return json_real(more * 8 / 1e9 / seconds);
}

void mpib_rates_add(json_t *now, const json_t *was, double seconds)
{
	json_t *row;
	size_t i, from = 0;

	json_array_foreach(now, i, row)
	{
		const json_t *old = mpib_rates_find(was, row, &from);

		json_object_set_new(row, "tx_gbps",
				    rates_one(row, old, "tx_bytes", seconds));
		json_object_set_new(row, "rx_gbps",
				    rates_one(row, old, "rx_bytes", seconds));
	}
}
