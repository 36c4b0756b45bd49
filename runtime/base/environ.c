/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environ.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define PREFIX "MPIB_"

static const char *environ_nearest(const char *name)
{
	/* Compare without the common prefix, because it would make any two
	 * names similar. */
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

bool mpib_environ_is_proxys(const char *name)
{
	/* The client library also reads MPIB_RUN_DIR and MPIB_START. */
	return is_known(name) && strcmp(name, "MPIB_RUN_DIR") != 0 &&
	       strcmp(name, "MPIB_START") != 0;
}

unsigned mpib_environ_list(char **env, mpib_environ_want *want, char *text,
			   size_t len)
{
	static const char cut[] = ", ...";
	size_t at = 0;
	unsigned n = 0, listed = 0;

	text[0] = '\0';
	for (; *env; env++) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*env, "="),
			 *env);
		if (!want(name))
			continue;
		if (n++ > listed)
			continue;
		/* Keep room for the final ", ...". */
		if (at + 2 + strlen(name) + sizeof(cut) <= len) {
			at += (size_t)snprintf(text + at, len - at, "%s%s",
					       at ? ", " : "", name);
			listed++;
		} else {
			snprintf(text + at, len - at, "%s", cut);
		}
	}
	return n;
}

bool mpib_environ_is_link(const char *value)
{
	return value &&
	       (!strncmp(value, "tcp://", 6) || !strncmp(value, "udp://", 6) ||
		!strncmp(value, "sctp://", 7));
}

void mpib_environ_check(char **env, mpib_environ_fn *fn, void *arg)
{
	for (; *env; env++) {
		const char *value = strchr(*env, '=');
		char name[64];

		if (strncmp(*env, PREFIX, strlen(PREFIX)) != 0 ||
		    (value && mpib_environ_is_link(value + 1)))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*env, "="),
			 *env);
		if (!is_known(name))
			fn(arg, name, environ_nearest(name));
	}
}
