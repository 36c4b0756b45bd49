/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl hist: a line per latency histogram, or one histogram as bars. */
#include <string.h>

#include "ctl/dial.h"
#include "ctl/show/table.h"
#include "ctl/show/views.h"

#define BAR 40

/* Write ns with three digits and a unit, as in "1.23 ms". */
static const char *views_hist_duration(double ns, char *buf, size_t len)
{
	static const char *const unit[] = { "ns", "us", "ms", "s" };
	unsigned u = 0;

	for (; ns >= 999.5 && u < 3; u++)
		ns /= 1000;
	snprintf(buf, len, "%.*f %s",
		 ns < 9.995 && u   ? 2
		 : ns < 99.95 && u ? 1
				   : 0,
		 ns, unit[u]);
	return buf;
}

static void set_duration(struct mpib_table *t, unsigned column, double ns)
{
	char text[16];

	mpib_table_set(t, column, "%s",
		       views_hist_duration(ns, text, sizeof(text)));
}

static void views_hist_add(struct mpib_table *t, const json_t *h,
			   const char *name)
{
	static const char *const keys[] = { "p50_ns", "p90_ns", "p99_ns",
					    "p999_ns", "max_ns" };
	double count = mpib_json_real(h, "count");
	char text[16];

	mpib_table_row(t);
	mpib_table_set(t, 0, "%s", name);
	mpib_table_set(t, 1, "%s",
		       mpib_human_count((uint64_t)count, text, sizeof(text)));
	for (unsigned i = 0; i < 5 && count > 0; i++)
		set_duration(t, 2 + i, mpib_json_real(h, keys[i]));
}

static void print_lines(const json_t *list, const char *first, unsigned width,
			FILE *out)
{
	const char *heads[] = { first,	"#COUNT", "#P50", "#P90",
				"#P99", "#P99.9", "#MAX", NULL };
	struct mpib_table t;
	const json_t *h;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(list, i, h)
	{
		const char *name =
			json_string_value(json_object_get(h, "name"));
		char conn[64];

		if (!name) {
			snprintf(conn, sizeof(conn), "%.0f/%.0f %s",
				 mpib_json_real(h, "client"),
				 mpib_json_real(h, "index"),
				 json_string_value(json_object_get(h, "peer")));
			name = conn;
		}
		views_hist_add(&t, h, name);
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void print_bars(const json_t *buckets, FILE *out)
{
	const json_t *b;
	double most = 1;
	size_t i;

	json_array_foreach(buckets, i, b)
	{
		double n = json_number_value(json_array_get(b, 1));

		most = n > most ? n : most;
	}
	json_array_foreach(buckets, i, b)
	{
		const json_t *above = json_array_get(b, 0);
		double n = json_number_value(json_array_get(b, 1));
		int len = (int)(n * BAR / most + 0.5);
		char text[16] = "more", count[16];

		if (json_is_number(above))
			views_hist_duration(json_number_value(above), text,
					    sizeof(text));
		fprintf(out, "< %8s  %7s  %.*s\n", text,
			mpib_human_count((uint64_t)n, count, sizeof(count)),
			len < 1 ? 1 : len,
			"########################################");
	}
}

void mpib_ctl_print_hist(const json_t *data, unsigned width, FILE *out)
{
	json_t *one;

	if (json_is_array(data)) {
		print_lines(data, "HISTOGRAM", width, out);
		return;
	}
	one = json_pack("[O]", data);
	print_lines(one, "HISTOGRAM", width, out);
	json_decref(one);
	fputc('\n', out);
	print_bars(json_object_get(data, "buckets"), out);
	if (json_array_size(json_object_get(data, "connections")) > 0) {
		fputc('\n', out);
		print_lines(json_object_get(data, "connections"), "CONNECTION",
			    width, out);
	}
}
