/* SPDX-License-Identifier: Apache-2.0 */
/* Request an upgrade, and wait until the successor answers. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/commands.h"

#define WITHIN_NS (180 * 1000000000ull)
#define PAUSE_US 20000

/* Ask whether the upgrade failed. Return MPIB_EXIT_OK if it has not failed.
 * Otherwise d->why has the reason. */
static int ask_state(struct mpib_dial *d)
{
	json_t *data;
	int rc = mpib_dial_ask(d, "upgrading", &data);
	const char *error = mpib_json_str(data, "error");

	if (rc == MPIB_EXIT_OK && *error) {
		snprintf(d->why, sizeof(d->why), "%s", error);
		rc = MPIB_EXIT_FAILED;
	} else {
		rc = MPIB_EXIT_OK; /* the proxy may just have ended */
	}
	json_decref(data);
	return rc;
}

static int say_done(const struct mpib_ctl_call *call, uint64_t before,
		    const json_t *greeting)
{
	json_t *data;

	if (!call->json && !call->fields) {
		printf("mpib-proxy %s now runs as pid %llu, previously pid %llu\n",
		       mpib_json_str(greeting, "mpib"),
		       (unsigned long long)mpib_json_num(greeting, "pid"),
		       (unsigned long long)before);
		return MPIB_EXIT_OK;
	}
	data = json_pack("{ss sI sI}", "mpib", mpib_json_str(greeting, "mpib"),
			 "pid", (json_int_t)mpib_json_num(greeting, "pid"),
			 "before", (json_int_t)before);
	mpib_ctl_print(call, data);
	json_decref(data);
	return MPIB_EXIT_OK;
}

/* Wait until a process with another pid answers. Until then, there may be no
 * answer at all. */
static int await_successor(const struct mpib_ctl_call *call, uint64_t before)
{
	uint64_t until = mpib_now_ns() + WITHIN_NS;
	struct mpib_dial d;
	bool done = false;
	int rc = MPIB_EXIT_OK;

	while (rc == MPIB_EXIT_OK && !done) {
		bool answers =
			mpib_dial_open(&d, call->run_dir) == MPIB_EXIT_OK;

		done = answers && mpib_json_num(d.greeting, "pid") != before;
		if (done)
			rc = say_done(call, before, d.greeting);
		else if (answers)
			rc = ask_state(&d);
		if (rc != MPIB_EXIT_OK)
			mpib_ctl_fail(rc, d.why);
		mpib_dial_close(&d);
		if (rc == MPIB_EXIT_OK && !done && mpib_now_ns() > until)
			return mpib_ctl_fail(MPIB_EXIT_NO_PROXY,
					     "no proxy answers after the "
					     "upgrade (see the log of "
					     "mpib-proxy, and start it)");
		if (!done)
			usleep(PAUSE_US);
	}
	return rc;
}

int mpib_ctl_upgrade(const struct mpib_ctl_call *call)
{
	struct mpib_dial d;
	json_t *data = NULL;
	char line[512];
	uint64_t before = 0;
	int rc;

	if (!mpib_ctl_line(call, line, sizeof(line)))
		return MPIB_EXIT_USAGE;
	rc = mpib_dial_open(&d, call->run_dir);
	if (rc == MPIB_EXIT_OK) {
		before = mpib_json_num(d.greeting, "pid");
		rc = mpib_dial_ask(&d, line, &data);
	}
	json_decref(data);
	if (rc != MPIB_EXIT_OK)
		mpib_ctl_fail(rc, d.why);
	mpib_dial_close(&d);
	if (rc == MPIB_EXIT_OK)
		rc = await_successor(call, before);
	return mpib_ctl_finish(rc);
}
