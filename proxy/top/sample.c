/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the proxy for a sample, and reading numbers and rates from samples. */
#include "top/sample.h"

#include <string.h>

#include "base/clock.h"
#include "ctl/rates.h"

int top_sample_take(struct mpib_dial *d, struct top_sample *s)
{
	int rc;

	*s = (struct top_sample){ 0 };
	rc = mpib_dial_read(d, "info", &s->info);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_read(d, "rails", &s->rails);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_read(d, "clients", &s->clients);
	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_read(d, "conns", &s->conns);
	if (rc != MPIB_EXIT_OK) {
		top_sample_free(s);
		return rc;
	}
	s->time = (double)mpib_now_ns() / 1e9;
	return rc;
}

void top_sample_free(struct top_sample *s)
{
	json_decref(s->info);
	json_decref(s->rails);
	json_decref(s->clients);
	json_decref(s->conns);
	*s = (struct top_sample){ 0 };
}

double top_num(const json_t *o, const char *key)
{
	const char *dot = strchr(key, '.');
	char first[32];

	if (!dot)
		return mpib_json_real(o, key);
	snprintf(first, sizeof(first), "%.*s", (int)(dot - key), key);
	return mpib_json_real(json_object_get(o, first), dot + 1);
}

double top_rate(const struct top_span *s, const json_t *was, const json_t *now,
		const char *key)
{
	double dt = s->now.time - s->was.time;
	double grown = top_num(now, key) - (was ? top_num(was, key) : 0);

	/* A counter that went back is that of another proxy or connection. */
	return s->was.time > 0 && dt > 0 && grown > 0 ? grown / dt : 0;
}
