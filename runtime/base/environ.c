/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environ.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

#define PREFIX "MPIB_"

/* The proxy's settings, so that a rank that shares its environment is not told
 * about them, and what is read by name. */
const char *const mpib_environ_names[] = {
#include "environ_settings.h"
	"MPIB_SOFT_DEVICES",
	"MPIB_SOFT_ENGINE",
	"MPIB_SOFT_PORT_BASE",
	NULL,
};

static const char *nearest(const char *name)
{
	/* What they all begin with would make any two of them near. */
	struct mpib_suggest s = { .typed = name + strlen(PREFIX) };

	for (unsigned i = 0; mpib_environ_names[i]; i++)
		mpib_suggest_try(&s, mpib_environ_names[i] + strlen(PREFIX));
	return mpib_suggest_best(&s) ? mpib_suggest_best(&s) - strlen(PREFIX)
				     : NULL;
}

static bool is_known(const char *name)
{
	for (unsigned i = 0; mpib_environ_names[i]; i++) {
		if (!strcmp(name, mpib_environ_names[i]))
			return true;
	}
	return false;
}

void mpib_environ_check(char **env, mpib_environ_fn *fn, void *arg)
{
	for (; *env; env++) {
		char name[64];

		if (strncmp(*env, PREFIX, strlen(PREFIX)) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*env, "="),
			 *env);
		if (!is_known(name))
			fn(arg, name, nearest(name));
	}
}
