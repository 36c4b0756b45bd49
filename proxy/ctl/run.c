/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that ask the proxy once and print the answer. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/commands.h"
#include "ctl/table.h"
#include "ctl/views.h"
#include "engine/measure/counters.h"

#define WIDTH 80
#define NO_TERMINAL 100000u

static bool json_errors;

void mpib_ctl_json_errors(void)
{
	json_errors = true;
}

int mpib_ctl_fail(int status, const char *why)
{
	json_t *all;

	fprintf(stderr, "mpibctl: %s\n", why);
	if (!json_errors)
		return status;
	all = json_pack("{s:b,s:s,s:i}", "ok", false, "error", why, "status",
			status);
	/* One line, for programs that read line by line. */
	json_dumpf(all, stdout, 0);
	putchar('\n');
	json_decref(all);
	return status;
}

unsigned mpib_ctl_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return NO_TERMINAL;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < WIDTH)
		return WIDTH;
	return size.ws_col;
}

int mpib_ctl_finish(int status)
{
	char why[160];

	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	/* If the reader closed the pipe, print no error. */
	if (errno == EPIPE)
		return MPIB_EXIT_FAILED;
	snprintf(why, sizeof(why), "standard output: %s (check the file)",
		 strerror(errno));
	return mpib_ctl_fail(MPIB_EXIT_FAILED, why);
}

/* An empty argument is a value for "config set"; other commands ignore it. */
bool mpib_ctl_line(const struct mpib_ctl_call *call, char *buf, size_t len)
{
	const char *nothing =
		call->command->run == mpib_ctl_change ? "\"\"" : "";
	int n = snprintf(buf, len, "%s", call->command->ask);

	for (unsigned i = 0; i < call->argc && n < (int)len; i++)
		n += snprintf(buf + n, len - (size_t)n, " %s",
			      *call->argv[i] ? call->argv[i] : nothing);
	if (n < (int)len)
		return true;
	mpib_ctl_fail(MPIB_EXIT_USAGE, "command line: an argument is too long "
				       "(see mpibctl --help)");
	return false;
}

int mpib_ctl_ask(const struct mpib_ctl_call *call, json_t **data)
{
	struct mpib_dial d;
	char line[512];
	int rc;

	*data = NULL;
	if (!mpib_ctl_line(call, line, sizeof(line)))
		return MPIB_EXIT_USAGE;
	rc = mpib_dial_open(&d, call->run_dir);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_ask(&d, line, data);
	if (rc != MPIB_EXIT_OK)
		mpib_ctl_fail(rc, d.why);
	mpib_dial_close(&d);
	return rc;
}

static bool has_faults(const json_t *row)
{
	return json_array_size(json_object_get(row, "faults")) > 0;
}

int mpib_ctl_print(const struct mpib_ctl_call *call, json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view_of(call->command);
	json_t *rows = mpib_ctl_view_rows(view, data);
	char why[MPIB_DIAL_WHY];

	if (call->quiet)
		mpib_rows_keep(rows, has_faults);
	if (call->quiet && json_array_size(rows) == 0)
		return MPIB_EXIT_OK;
	if (call->fields) {
		if (!mpib_fields_print(rows, call->fields, stdout, why,
				       sizeof(why)))
			return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	} else if (call->json || !view) {
		/* ASCII only, so that no control character gets to a
		 * terminal. */
		json_dumpf(data, stdout,
			   JSON_INDENT(2) | JSON_ENCODE_ANY | MPIB_JSON_DIGITS |
				   (isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII
							  : 0));
		putchar('\n');
	} else {
		mpib_columns_show(call->wide, call->rates);
		mpib_ctl_view_print(view, data,
				    call->wide ? NO_TERMINAL : mpib_ctl_width(),
				    stdout);
	}
	return MPIB_EXIT_OK;
}

/* Return the exit status for an answer: MPIB_EXIT_FAILED if the answer has
 * faulty rows. */
static int run_verdict(const struct mpib_ctl_call *call, const json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view_of(call->command);

	return view && view->faulty && !call->watch &&
			       mpib_json_num(data, view->faulty)
		       ? MPIB_EXIT_FAILED
		       : MPIB_EXIT_OK;
}

/* Ask once and print the answer. With --rates, do not print the first answer:
 * it is only the start of the first interval. */
static int show_once(const struct mpib_ctl_call *call,
		     struct mpib_answer *before)
{
	const struct mpib_ctl_view *view = mpib_ctl_view_of(call->command);
	bool first = !before->data;
	json_t *data, *answer;
	int rc = mpib_ctl_ask(call, &answer);

	if (rc != MPIB_EXIT_OK)
		return rc;
	data = view && view->make ? view->make(answer) : json_incref(answer);
	json_decref(answer);
	if (call->rates)
		mpib_answer_put(before, view, data);
	if (!call->rates || !first)
		rc = mpib_ctl_finish(mpib_ctl_print(call, data));
	if (rc == MPIB_EXIT_OK)
		rc = run_verdict(call, data);
	if (!call->rates)
		json_decref(data);
	return rc;
}

/* With --watch, print the time above each table, but not in output for
 * scripts. */
int mpib_ctl_show(const struct mpib_ctl_call *call)
{
	struct mpib_answer before = { 0 };
	char text[32];
	struct tm tm;
	time_t now;
	int rc;

	rc = call->rates ? show_once(call, &before) : MPIB_EXIT_OK;
	while (rc == MPIB_EXIT_OK) {
		if (call->rates)
			sleep(call->watch ? call->watch : 1);
		if (call->watch && !call->json && !call->fields) {
			now = time(NULL);
			strftime(text, sizeof(text), "%H:%M:%S",
				 localtime_r(&now, &tm));
			printf("%s\n", text);
		}
		rc = show_once(call, &before);
		if (!call->watch)
			break;
		if (!call->rates)
			sleep(call->watch);
	}
	json_decref(before.data);
	return rc;
}

/* Print "lane.window is 16777216, set by uid 0", the answer to "config set". */
static void print_set(const json_t *data)
{
	const char *value = mpib_json_str(data, "value");

	printf("%s.%s is %s, %s\n", mpib_json_str(data, "section"),
	       mpib_json_str(data, "key"), value[0] ? value : "\"\"",
	       mpib_json_str(data, "origin"));
}

/* Send a command that changes something, then print the change that the proxy
 * reports: "rail SUP, drained", or "not drained". */
int mpib_ctl_change(const struct mpib_ctl_call *call)
{
	const char *key, *sep = "";
	json_t *data, *value;
	int rc = mpib_ctl_ask(call, &data);

	if (rc == MPIB_EXIT_OK && (call->json || call->fields)) {
		rc = mpib_ctl_print(call, data);
	} else if (json_object_get(data, "origin")) {
		print_set(data);
	} else if (rc == MPIB_EXIT_OK) {
		json_object_foreach(data, key, value)
		{
			printf("%s%s%s", sep,
			       json_is_false(value) ? "not " : "", key);
			if (json_is_string(value))
				printf(" %s", json_string_value(value));
			else if (!json_is_boolean(value)) {
				putchar(' ');
				json_dumpf(value, stdout,
					   JSON_ENCODE_ANY | MPIB_JSON_DIGITS);
			}
			sep = ", ";
		}
		putchar('\n');
	}
	json_decref(data);
	return mpib_ctl_finish(rc);
}

int mpib_ctl_metrics(const struct mpib_ctl_call *call)
{
	json_t *data;
	int rc = mpib_ctl_ask(call, &data);
	const char *text = json_string_value(data);

	fputs(text ? text : "", stdout);
	json_decref(data);
	return mpib_ctl_finish(rc);
}

int mpib_ctl_ping(const struct mpib_ctl_call *call)
{
	struct mpib_dial d;
	int rc = mpib_dial_probe(&d, call->run_dir);

	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_open(&d, call->run_dir);
	if (rc != MPIB_EXIT_OK)
		return mpib_ctl_fail(rc, d.why);
	if (call->fields || call->json)
		rc = mpib_ctl_print(call, d.greeting);
	else
		printf("mpib-proxy %s answers, pid %" JSON_INTEGER_FORMAT
		       ", up %.0f s\n",
		       json_string_value(json_object_get(d.greeting, "mpib")),
		       json_integer_value(json_object_get(d.greeting, "pid")),
		       mpib_json_real(d.greeting, "uptime_s"));
	mpib_dial_close(&d);
	return mpib_ctl_finish(rc);
}

/* mpibctl counters: all counters of the rails, one row each. */

/* The fields of a rail that are counters. Other fields with numbers are
 * states. */
#define AS_FIELD(field, ...) #field,
#define AS_KEY(field, key, ...) key,
static const char *const counted[] = {
	MPIB_MOVED_COUNTERS(AS_FIELD, AS_FIELD)
		MPIB_RAIL_COUNTERS(AS_KEY, AS_KEY) "failover",
	"hw", "retries"
};

static bool is_counted(const char *key)
{
	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		if (!strcmp(counted[i], key))
			return true;
	}
	return false;
}

/* Add a row for each integer in `value`, which may be an object of objects. */
static void counters_add(json_t *rows, const char *rail, const char *name,
			 json_t *value)
{
	char path[96];
	const char *key;
	json_t *inner;

	if (json_is_integer(value))
		json_array_append_new(rows, json_pack("{ss ss sO}", "rail",
						      rail, "counter", name,
						      "value", value));
	json_object_foreach(value, key, inner)
	{
		snprintf(path, sizeof(path), "%s.%s", name, key);
		counters_add(rows, rail, path, inner);
	}
}

static json_t *counters_of(const json_t *rails)
{
	json_t *rows = json_array(), *rail, *value;
	const char *key;
	size_t i;

	json_array_foreach(rails, i, rail)
	{
		json_object_foreach(rail, key, value)
		{
			if (is_counted(key))
				counters_add(rows, mpib_json_str(rail, "label"),
					     key, value);
		}
	}
	return rows;
}

int mpib_ctl_counters(const struct mpib_ctl_call *call)
{
	json_t *rails, *rows;
	int rc = mpib_ctl_ask(call, &rails);

	if (rc != MPIB_EXIT_OK)
		return rc;
	rows = counters_of(rails);
	rc = mpib_ctl_finish(mpib_ctl_print(call, rows));
	json_decref(rows);
	json_decref(rails);
	return rc;
}

/* mpibctl events follow: print events until interrupted. */

#define PAUSE_US 300000
#define TRIES 10

/* Print new events as text, or with -j as one line of JSON per event. */
static void print_news(const struct mpib_ctl_call *call, const json_t *data)
{
	char text[MPIB_CELL_MAX];
	const json_t *e;
	size_t i;

	json_array_foreach(json_object_get(data, "events"), i, e)
	{
		if (call->json)
			json_dumpf(e, stdout, JSON_COMPACT | MPIB_JSON_DIGITS);
		else
			mpib_fill_in(text, sizeof(text),
				     "{seq}  {time:time}  {level}  {text}", e);
		printf("%s\n", call->json ? "" : text);
	}
}

/* Ask the proxy for the events after event number `last`. */
static int ask_news(struct mpib_dial *d, json_int_t last, json_t **data)
{
	char line[64];

	snprintf(line, sizeof(line), "events %" JSON_INTEGER_FORMAT, last);
	return mpib_dial_ask(d, line, data);
}

/* Like ask_news(). If the proxy hangs up, it may be restarting: connect and ask
 * again, up to TRIES times. */
static int ask_again(const struct mpib_ctl_call *call, struct mpib_dial *d,
		     json_int_t last, json_t **data)
{
	int rc = ask_news(d, last, data);

	for (unsigned i = 0; rc == MPIB_EXIT_NO_PROXY && i < TRIES; i++) {
		mpib_dial_close(d);
		usleep(PAUSE_US);
		rc = mpib_dial_open(d, call->run_dir);
		if (rc == MPIB_EXIT_OK)
			rc = ask_news(d, last, data);
	}
	return rc;
}

int mpib_ctl_follow(const struct mpib_ctl_call *call)
{
	json_int_t last = 0, newest;
	struct mpib_dial d;
	int rc = mpib_dial_open(&d, call->run_dir);

	while (rc == MPIB_EXIT_OK) {
		json_t *data;

		rc = ask_again(call, &d, last, &data);
		if (rc != MPIB_EXIT_OK)
			break;
		newest = json_integer_value(json_object_get(data, "last"));
		if (newest < last) {
			/* The proxy restarted: its events start from 1. */
			last = 0;
			json_decref(data);
			continue;
		}
		last = newest;
		print_news(call, data);
		json_decref(data);
		if (mpib_ctl_finish(rc) != MPIB_EXIT_OK)
			goto out;
		usleep(PAUSE_US);
	}
	mpib_ctl_fail(rc, d.why);
	mpib_dial_close(&d);
	return rc;

out:
	mpib_dial_close(&d);
	return MPIB_EXIT_FAILED;
}
