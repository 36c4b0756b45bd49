/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of mpib-proxy, read once at start-up. */
#ifndef MPIB_PROXY_OPTIONS_H
#define MPIB_PROXY_OPTIONS_H

#include "config/config.h"

enum mpib_action {
	MPIB_ACTION_RUN,
	MPIB_ACTION_CHECK, /* --check-config */
	MPIB_ACTION_HELP,
	MPIB_ACTION_VERSION,
};

/*
 * Read every source of the configuration into cfg, which has the built-in values
 * of mpib_config_init(), in this order: the files of dir (or the --config file
 * alone), env, argv. 0 or
 * -EINVAL with why as in config.h. With MPIB_ACTION_HELP and _VERSION cfg is
 * not complete.
 */
int mpib_options_read(struct mpib_config *cfg, int argc, char **argv,
		      char **env, const char *dir, enum mpib_action *action,
		      char *why);

void mpib_options_help(FILE *out);

#endif
