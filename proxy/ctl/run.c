/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that ask the proxy once and print its answer. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/commands.h"
#include "ctl/fields.h"
#include "ctl/rates.h"
#include "ctl/show/columns.h"
#include "ctl/show/views.h"
#include "ctl/textfile.h"

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
	/* A line, as all else of what is read a line at a time. */
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
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	/* The pipe's reader has seen enough. */
	if (errno == EPIPE)
		return MPIB_EXIT_FAILED;
	fprintf(stderr, "mpibctl: standard output: %s (see where it leads)\n",
		strerror(errno));
	return MPIB_EXIT_FAILED;
}

/* "" is a word where something is set, and elsewhere as if it was not there. */
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

/* The part of an answer that is a list, one of the noun's things each. */
static json_t *run_rows(const struct mpib_ctl_call *call, json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view(call->command->noun);

	if (view && view->rows)
		return json_object_get(data, view->rows);
	return data;
}

/* With --quiet: leave the rows that have faults. False: there are none. */
static bool run_quiet(const struct mpib_ctl_call *call, json_t *data)
{
	json_t *rows = run_rows(call, data);
	size_t i = 0;

	while (call->quiet && i < json_array_size(rows)) {
		const json_t *row = json_array_get(rows, i);

		if (json_array_size(json_object_get(row, "faults")))
			i++;
		else
			json_array_remove(rows, i);
	}
	return !call->quiet || i > 0;
}

int mpib_ctl_print(const struct mpib_ctl_call *call, json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view(call->command->noun);
	char why[MPIB_DIAL_WHY];

	if (!run_quiet(call, data))
		return MPIB_EXIT_OK;
	if (call->fields || call->csv) {
		if (!mpib_fields_print(run_rows(call, data), call->fields,
				       call->csv, stdout, why, sizeof(why)))
			return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	} else if (call->json || !view) {
		/* What is exact commands no terminal either. */
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

/* What the answer itself has the tool end with. */
static int run_verdict(const struct mpib_ctl_call *call, const json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view(call->command->noun);

	return view && view->faulty && !call->watch &&
			       mpib_json_num(data, view->faulty)
		       ? MPIB_EXIT_FAILED
		       : MPIB_EXIT_OK;
}

/* The latest answer that rates are counted from, NULL before the first. */
struct show_before {
	json_t *data;
	uint64_t at; /* mpib_now_ns() */
};

static int show_once(const struct mpib_ctl_call *call,
		     struct show_before *before)
{
	json_t *data;
	int rc = mpib_ctl_ask(call, &data);
	uint64_t now = mpib_now_ns();

	if (rc == MPIB_EXIT_OK && before->data)
		mpib_rates_add(run_rows(call, data),
			       run_rows(call, before->data),
			       (double)(now - before->at) / 1e9);
	if (rc == MPIB_EXIT_OK && (before->data || !call->rates))
		rc = mpib_ctl_finish(mpib_ctl_print(call, data));
	if (rc == MPIB_EXIT_OK)
		rc = run_verdict(call, data);
	json_decref(before->data);
	before->data = NULL;
	if (rc == MPIB_EXIT_OK && call->rates) {
		*before = (struct show_before){ data, now };
		return rc;
	}
	json_decref(data);
	return rc;
}

/* With --watch a table has the time above it; what scripts read has not. */
int mpib_ctl_show(const struct mpib_ctl_call *call)
{
	struct show_before before = { 0 };
	char text[32];
	struct tm tm;
	time_t now;
	int rc;

	rc = call->rates ? show_once(call, &before) : MPIB_EXIT_OK;
	while (rc == MPIB_EXIT_OK) {
		if (call->rates)
			sleep(call->watch ? call->watch : 1);
		if (call->watch && !call->json && !call->fields && !call->csv) {
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

/* Send a command that changes something, then print what the proxy reports as
 * changed: "rail SUP, drained", or "not drained". */
int mpib_ctl_change(const struct mpib_ctl_call *call)
{
	const char *key, *sep = "";
	json_t *data, *value;
	int rc = mpib_ctl_ask(call, &data);

	if (rc == MPIB_EXIT_OK && (call->json || call->fields)) {
		rc = mpib_ctl_print(call, data);
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
	const char *command = call->command->ask;
	struct mpib_dial d;
	int rc;

	if (call->textfile)
		command = "metrics prometheus";
	rc = mpib_dial_open(&d, call->run_dir);
	if (rc == MPIB_EXIT_OK && call->textfile)
		rc = mpib_textfile_write(&d, command, call->textfile);
	else if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_text(&d, command, stdout);
	if (rc != MPIB_EXIT_OK)
		mpib_ctl_fail(rc, d.why);
	mpib_dial_close(&d);
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
