/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpibctl counters: all that the proxy counts of its rails, one row each, and
 * with --since how much more that is than in a mark: a file that
 * "mpibctl -j counters" has written.
 */
#include <string.h>
#include <time.h>

#include "ctl/commands.h"
#include "ctl/show/columns.h"

/* Integers of a rail that say how something is, not how often it was. */
static const char *const states[] = { "speed_mbps", "mtu",     "expected_mbps",
				      "qps",	    "srq_low", "srq_high",
				      "srq_posted" };

static bool counters_is_state(const char *key)
{
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (!strcmp(key, states[i]))
			return true;
	}
	return false;
}

/* Add a row for each integer in value, which may be an object of objects. */
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
			if (!counters_is_state(key))
				counters_add(rows, mpib_json_str(rail, "label"),
					     key, value);
		}
	}
	return json_pack("{sI so}", "time", (json_int_t)time(NULL), "counters",
			 rows);
}

/* The row of the mark that is of the same counter. */
static const json_t *counters_find(const json_t *mark, const json_t *row)
{
	const json_t *old;
	size_t i;

	json_array_foreach(json_object_get(mark, "counters"), i, old)
	{
		if (!strcmp(mpib_json_str(old, "rail"),
			    mpib_json_str(row, "rail")) &&
		    !strcmp(mpib_json_str(old, "counter"),
			    mpib_json_str(row, "counter")))
			return old;
	}
	return NULL;
}

/* Take the mark's values off. False: one is less than it was. */
static bool counters_take_off(json_t *data, const json_t *mark)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(data, "counters"), i, row)
	{
		json_int_t now = (json_int_t)mpib_json_num(row, "value");
		json_int_t was = (json_int_t)mpib_json_num(
			counters_find(mark, row), "value");

		if (now < was)
			return false;
		json_object_set_new(row, "value", json_integer(now - was));
	}
	json_object_set(data, "since", json_object_get(mark, "time"));
	return true;
}

static int counters_since(const struct mpib_ctl_call *call, json_t *data)
{
	char why[MPIB_DIAL_WHY];
	json_error_t error;
	json_t *mark = json_load_file(call->since, 0, &error);
	int rc = MPIB_EXIT_OK;

	if (!json_is_array(json_object_get(mark, "counters")) ||
	    !json_is_integer(json_object_get(mark, "time"))) {
		snprintf(
			why, sizeof(why),
			"--since %.200s: no mark%s%.120s (make one: mpibctl -j "
			"counters > FILE)",
			call->since, mark ? "" : ": ", mark ? "" : error.text);
		rc = mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	} else if (!counters_take_off(data, mark)) {
		snprintf(why, sizeof(why),
			 "--since %.200s: counting began again after it, as "
			 "mpib-proxy was restarted (make a new mark)",
			 call->since);
		rc = mpib_ctl_fail(MPIB_EXIT_FAILED, why);
	}
	json_decref(mark);
	return rc;
}

int mpib_ctl_counters(const struct mpib_ctl_call *call)
{
	json_t *rails, *data;
	int rc = mpib_ctl_ask(call, &rails);

	if (rc != MPIB_EXIT_OK)
		return rc;
	data = counters_of(rails);
	if (call->since)
		rc = counters_since(call, data);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_ctl_finish(mpib_ctl_print(call, data));
	json_decref(data);
	json_decref(rails);
	return rc;
}
