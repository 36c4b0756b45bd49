/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration with all defaults, in a folder of the test's own. */
#ifndef MPIB_TESTS_CONFIG_FIXTURE_H
#define MPIB_TESTS_CONFIG_FIXTURE_H

#include "config/config.h"
#include "scratch.h"
#include "test.h"

static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];

/* A cmocka setup; scratch_remove() is its teardown. */
static int fresh(void **state)
{
	mpib_config_init(&cfg);
	why[0] = '\0';
	return scratch_make(state);
}

/* Have it read from a file of that text. */
static inline int read_file(const char *text)
{
	scratch_write("f.conf", text);
	return mpib_config_read_file(&cfg, scratch_path("f.conf"), why);
}

#endif
