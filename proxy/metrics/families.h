/* SPDX-License-Identifier: Apache-2.0 */
/* The table of metric families, one entry each. Private to metrics/. */
#ifndef MPIB_METRICS_FAMILIES_H
#define MPIB_METRICS_FAMILIES_H

#include <stdio.h>

#include "base/hist.h"
#include "metrics/openmetrics.h"
#include "view/sums.h"

enum mpib_family_type {
	MPIB_FAMILY_COUNTER,
	MPIB_FAMILY_GAUGE,
	MPIB_FAMILY_INFO, /* always 1; its labels are the information */
	MPIB_FAMILY_HISTOGRAM, /* of seconds */
};

struct mpib_exposition;

struct mpib_family {
	const char *name; /* without _total and _info; ends with the unit */
	enum mpib_family_type type;
	const char *unit; /* or NULL */
	void (*fill)(const struct mpib_exposition *m);
	size_t field; /* for fill: offset of the number to show */
	const char *help;
};

extern const struct mpib_family mpib_families[];
extern const unsigned mpib_family_count;

struct mpib_exposed_client {
	const struct proxy_client *client;
	char id[12], uid[12];
	struct mpib_client_sums sums;
};

/* The state of writing one scrape. */
struct mpib_exposition {
	FILE *out;
	const struct mpib_family *family;
	const struct mpib_view *view;
	struct mpib_exposed_client client[MPIB_METRICS_CLIENTS];
	unsigned clients;
};

struct mpib_label {
	const char *name, *value;
};

/* 0, of nothing. */
double mpib_ratio(double used, double of);

/* Write one sample of m->family. */
void mpib_sample(const struct mpib_exposition *m,
		 const struct mpib_label *label, unsigned labels,
		 uint64_t value);
void mpib_sample_real(const struct mpib_exposition *m,
		      const struct mpib_label *label, unsigned labels,
		      double value);

/* Write all samples of one histogram: buckets up to 2^first, 2^(first + step), ...
 * 2^last ns, few enough that a scrape stays small. */
struct mpib_bounds {
	unsigned first, last, step;
};
void mpib_sample_hist(const struct mpib_exposition *m,
		      const struct mpib_label *label, unsigned labels,
		      const struct mpib_bounds *bounds,
		      const struct mpib_hist_counts *h);

/* Fill in the labels of a rail: rail, and net where there are several devices.
 * Returns how many: at most MPIB_RAIL_LABELS. */
#define MPIB_RAIL_LABELS 2u
unsigned mpib_rail_labels(const struct mpib_exposition *m, unsigned rail,
			  struct mpib_label *label);

/* times.c */
typedef void mpib_fill_fn(const struct mpib_exposition *m);
mpib_fill_fn mpib_fill_request_seconds, mpib_fill_completion_seconds,
	mpib_fill_client_seconds, mpib_fill_oldest_request,
	mpib_fill_thread_seconds, mpib_fill_failovers,
	mpib_fill_failover_seconds;
/* quotas.c */
mpib_fill_fn mpib_fill_limits, mpib_fill_quotas;

#endif
