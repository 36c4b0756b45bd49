/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl events follow: until it is interrupted. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ctl/commands.h"
#include "ctl/views.h"

#define PAUSE_US 300000
#define TRIES 10

/* Print new events as text, or with -j as one line of JSON per event. */
static void print_news(const struct mpib_ctl_call *call, const json_t *data)
{
	const json_t *e;
	size_t i;

	if (!call->json) {
		mpib_ctl_print_events(data, mpib_ctl_width(), stdout);
		return;
	}
	json_array_foreach(json_object_get(data, "events"), i, e)
	{
		json_dumpf(e, stdout, JSON_COMPACT | MPIB_JSON_DIGITS);
		putchar('\n');
	}
}

/* Ask the proxy for the events after event number last. */
static int ask_news(struct mpib_dial *d, json_int_t last, json_t **data)
{
	char line[64];

	snprintf(line, sizeof(line), "events %" JSON_INTEGER_FORMAT, last);
	return mpib_dial_ask(d, line, data);
}

/* Like ask_news(). If the proxy hangs up it may be restarted, so connect and ask
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
