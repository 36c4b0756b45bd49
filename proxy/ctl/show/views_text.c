/* SPDX-License-Identifier: Apache-2.0 */
/* What mpibctl prints that is no table: histograms as bars, and the journal, one
 * event per line, long texts wrapped. */
#include <string.h>
#include <time.h>

#include "ctl/dial.h"
#include "ctl/show/views.h"

#define BAR 40

#define TIMES                                                                  \
	SHOWN("#COUNT", "{count:count}"), SHOWN("#P50", "{p50_ns:ns}"),        \
		SHOWN("#P90", "{p90_ns:ns}"), SHOWN("#P99", "{p99_ns:ns}"),    \
		SHOWN("#P99.9", "{p999_ns:ns}"), SHOWN("#MAX", "{max_ns:ns}")

static const struct mpib_column hists[] = {
	SHOWN("HISTOGRAM", "{name}"),
	TIMES,
	{ 0 },
};

static const struct mpib_column conns[] = {
	SHOWN("CONNECTION", "{client}/{index} {peer}"),
	TIMES,
	{ 0 },
};

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
			mpib_human_duration(json_number_value(above), text,
					    sizeof(text));
		fprintf(out, "< %8s  %7s  %.*s\n", text,
			mpib_human_count((uint64_t)n, count, sizeof(count)),
			len < 1 ? 1 : len,
			"########################################");
	}
}

void mpib_ctl_print_hist(const json_t *data, unsigned width, FILE *out)
{
	const json_t *list = json_object_get(data, "connections");
	json_t *one;

	if (json_is_array(data)) {
		mpib_ctl_rows_print(hists, data, NULL, NULL, width, out);
		return;
	}
	one = json_pack("[O]", data);
	mpib_ctl_rows_print(hists, one, NULL, NULL, width, out);
	json_decref(one);
	fputc('\n', out);
	print_bars(json_object_get(data, "buckets"), out);
	if (json_array_size(list) > 0) {
		fputc('\n', out);
		mpib_ctl_rows_print(conns, list, NULL, NULL, width, out);
	}
}

/* Print text from column at on; lines after the first start at indent. */
static void views_events_wrap(const char *text, unsigned at, unsigned indent,
			      unsigned width, FILE *out)
{
	while (*text) {
		unsigned len = (unsigned)strcspn(text, " ");

		if (at > indent && at + 1 + len > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			fputc(' ', out);
			at++;
		}
		/* Cut a word that is longer than a line. */
		if (len > width - at)
			fprintf(out, "%.*s~", (int)(width - at - 1), text);
		else
			fprintf(out, "%.*s", (int)len, text);
		at += len;
		text += len + strspn(text + len, " ");
	}
	fputc('\n', out);
}

static void print_event(const json_t *e, unsigned width, FILE *out)
{
	const char *level = json_string_value(json_object_get(e, "level"));
	const char *text = json_string_value(json_object_get(e, "text"));
	time_t when = (time_t)mpib_json_real(e, "time");
	char clock[16] = "";
	struct tm tm;
	int at;

	if (localtime_r(&when, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	at = fprintf(out, "%5" JSON_INTEGER_FORMAT "  %s  %-5.5s  ",
		     json_integer_value(json_object_get(e, "seq")), clock,
		     level ? level : "");
	views_events_wrap(text ? text : "", (unsigned)at, (unsigned)at, width,
			  out);
}

void mpib_ctl_print_events(const json_t *data, unsigned width, FILE *out)
{
	json_int_t lost = json_integer_value(json_object_get(data, "lost"));
	const json_t *e;
	size_t i;

	if (lost > 0)
		fprintf(out,
			"(%" JSON_INTEGER_FORMAT " older events are kept no "
			"more)\n",
			lost);
	json_array_foreach(json_object_get(data, "events"), i, e)
		print_event(e, width, out);
}
