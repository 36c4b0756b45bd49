/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpibctl upgrade: ask the proxy to hand over to a new process, then ask the
 * process that serves the stats socket, old or new, how the hand-over ended.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/suggest.h"
#include "commands.h"

/* Longer than all limits of a proxy's steps together (handover/upgrade.c, source.c). */
#define PATIENCE_NS 90000000000u

static int upgrade_ask(const struct mpib_ctl_call *call, const char *line,
		       json_t **data, char *why)
{
	struct mpib_dial d;
	int rc = mpib_dial_open(&d, call->run_dir);

	*data = NULL;
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_ask(&d, line, data);
	if (rc != MPIB_EXIT_OK)
		snprintf(why, MPIB_DIAL_WHY, "%s", d.why);
	mpib_dial_close(&d);
	return rc;
}

/* data is NULL when the old process hung up and the new one does not serve yet;
 * then the hand-over is not over. */
static bool upgrade_over(const json_t *data)
{
	const char *state = mpib_json_str(data, "state");

	return !strcmp(state, "done") || !strcmp(state, "failed");
}

static int upgrade_finish(const struct mpib_ctl_call *call, const json_t *data)
{
	if (!strcmp(mpib_json_str(data, "state"), "failed"))
		return mpib_ctl_fail(MPIB_EXIT_FAILED,
				     mpib_json_str(data, "error"));
	if (call->json) {
		json_dumpf(data, stdout, JSON_INDENT(2) | MPIB_JSON_DIGITS);
		putchar('\n');
	} else {
		printf("mpib-proxy was upgraded, pid %" JSON_INTEGER_FORMAT
		       ", traffic stood still for %.1f ms\n",
		       json_integer_value(json_object_get(data, "pid")),
		       mpib_json_real(data, "blackout_s") * 1000);
	}
	return MPIB_EXIT_OK;
}

/* It may be a misspelt verb. */
static int upgrade_no_path(const char *path, int error)
{
	struct mpib_suggest s = { .typed = path };
	char why[MPIB_DIAL_WHY], remedy[64];

	mpib_suggest_try(&s, "show");
	snprintf(why, sizeof(why), "%.256s: %s (%s)", path, strerror(error),
		 mpib_suggest_remedy(&s, "name an mpib-proxy, or give no path",
				     remedy, sizeof(remedy)));
	return mpib_ctl_fail(MPIB_EXIT_FAILED, why);
}

int mpib_ctl_upgrade(const struct mpib_ctl_call *call)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	const uint64_t until = mpib_now_ns() + PATIENCE_NS;
	char line[512], path[PATH_MAX], why[MPIB_DIAL_WHY];
	struct mpib_ctl_call whole = *call;
	json_t *data;
	int rc;

	if (call->argc) {
		/* The proxy has another working directory. */
		if (!realpath(call->argv[0], path)) {
			return upgrade_no_path(call->argv[0], errno);
		}
		whole.argv[0] = path;
	}
	if (!mpib_ctl_line(&whole, line, sizeof(line)))
		return MPIB_EXIT_USAGE;
	rc = upgrade_ask(call, line, &data, why);
	if (rc != MPIB_EXIT_OK)
		return mpib_ctl_fail(rc, why);
	while (!upgrade_over(data) && mpib_now_ns() < until) {
		json_decref(data);
		nanosleep(&pause, NULL);
		rc = upgrade_ask(call, "upgrades", &data, why);
	}
	if (upgrade_over(data))
		rc = upgrade_finish(call, data);
	else
		rc = mpib_ctl_fail(MPIB_EXIT_FAILED,
				   rc == MPIB_EXIT_OK
					   ? "the upgrade does not come to an "
					     "end (see mpibctl upgrade show)"
					   : why);
	json_decref(data);
	return mpib_ctl_finish(rc);
}
