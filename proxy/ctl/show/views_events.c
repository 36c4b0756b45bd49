/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl events: the journal, one event per line, long texts wrapped. */
#include <string.h>
#include <time.h>

#include "ctl/dial.h"
#include "ctl/show/views.h"

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
