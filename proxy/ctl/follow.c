/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl events follow and mpibctl monitor: commands that run until they are
 * interrupted. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ctl/commands.h"
#include "ctl/table.h"
#include "ctl/views.h"

#define PAUSE_US 300000
#define TRIES 10
#define RAILS 2

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

/* Each rail is the sum over the devices. */
struct rate {
	double uptime, tx[RAILS], rx[RAILS];
};

static void print_sample(const json_t *data, struct rate *was, unsigned line)
{
	struct rate now = { .uptime = mpib_json_real(data, "uptime_s") };
	double dt = now.uptime - was->uptime;
	unsigned rails = 0;
	const json_t *r;
	size_t i;

	if (line % 20 == 1)
		printf("%8s  %21s  %21s  %7s  %6s\n", "UP",
		       "SOUT sent, received", "SUP sent, received", "CLIENTS",
		       "EVENTS");
	if (line)
		printf("%7.0fs", now.uptime);
	json_array_foreach(json_object_get(data, "rails"), i, r)
	{
		bool sup = !strcmp(
			json_string_value(json_object_get(r, "name")), "SUP");

		rails |= 1u << sup;
		now.tx[sup] += mpib_json_real(r, "tx_bytes");
		now.rx[sup] += mpib_json_real(r, "rx_bytes");
	}
	for (i = 0; i < RAILS; i++) {
		char tx[16], rx[16];

		if (!line || dt <= 0 || !(rails >> i & 1))
			continue;
		mpib_human_bytes((uint64_t)((now.tx[i] - was->tx[i]) / dt), tx,
				 sizeof(tx));
		mpib_human_bytes((uint64_t)((now.rx[i] - was->rx[i]) / dt), rx,
				 sizeof(rx));
		printf("  %8s/s %8s/s", tx, rx);
	}
	if (line)
		printf("  %7zu  %6.0f\n",
		       json_array_size(json_object_get(data, "clients")),
		       mpib_json_real(data, "last_event"));
	*was = now;
}

int mpib_ctl_monitor(const struct mpib_ctl_call *call)
{
	struct rate was = { 0 };
	struct mpib_dial d;
	char line[64];
	int rc;

	if (!mpib_ctl_line(call, line, sizeof(line)))
		return MPIB_EXIT_USAGE;
	rc = mpib_dial_open(&d, call->run_dir);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_say(&d, line);
	for (unsigned n = 0; rc == MPIB_EXIT_OK; n++) {
		json_t *data;

		rc = mpib_dial_answer(&d, &data);
		mpib_dial_patient(&d);
		if (rc != MPIB_EXIT_OK)
			break;
		if (call->json) {
			json_dumpf(data, stdout,
				   JSON_COMPACT | MPIB_JSON_DIGITS);
			putchar('\n');
		} else {
			print_sample(data, &was, n);
		}
		json_decref(data);
		if (mpib_ctl_finish(rc) != MPIB_EXIT_OK) {
			mpib_dial_close(&d);
			return MPIB_EXIT_FAILED;
		}
	}
	mpib_ctl_fail(rc, d.why);
	mpib_dial_close(&d);
	return rc;
}
