/* SPDX-License-Identifier: Apache-2.0 */
/* base/environ.h: variables that no program reads, and variables that only the
 * proxy reads. */
#include "base/environ.h"

#include <stdio.h>

#include "test.h"

struct report {
	unsigned count;
	char name[64], nearest[64];
};

static void tell(void *arg, const char *name, const char *nearest)
{
	struct report *t = arg;

	t->count++;
	snprintf(t->name, sizeof(t->name), "%s", name);
	snprintf(t->nearest, sizeof(t->nearest), "%s", nearest ? nearest : "-");
}

static struct report check(const char *variable)
{
	char text[128];
	char path[] = "PATH=/bin";
	char *env[] = { path, text, NULL };
	struct report t = { 0 };

	snprintf(text, sizeof(text), "%s", variable);
	mpib_environ_check(env, tell, &t);
	return t;
}

TEST(an_unknown_name_is_reported_with_the_nearest_known_name)
{
	static const struct {
		/* `nearest` is NULL if the variable is not reported */
		const char *variable, *nearest;
	} row[] = {
		{ "MPIB_SUP_BW=100", NULL },
		{ "MPIB_SUPBW=100", "MPIB_SUP_BW" },
		{ "MPIB_FRUIT_SALAD=1", "-" },
		{ "MPIBRAIN=1", NULL },
		{ "XMPIB_SUPBW=1", NULL },
		/* Kubernetes sets variables like the first one for each
		 * service. */
		{ "MPIB_PEER_PORT_80_TCP=tcp://10.96.0.7:80", NULL },
		{ "MPIB_PEER_PORT_80_TCP=http://x", "-" },
		{ "MPIB_PEER_PORT_80_TCP", "-" },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct report t = check(row[i].variable);

		assert_int_equal(t.count, row[i].nearest != NULL);
		if (t.count && strcmp(row[i].nearest, "-"))
			assert_string_equal(t.nearest, row[i].nearest);
	}
	assert_string_equal(check("MPIB_SUPBW=100").name, "MPIB_SUPBW");
	assert_string_equal(check("MPIB_FRUIT_SALAD=1").nearest, "-");
}

TEST(a_very_long_name_is_truncated)
{
	char text[128];

	memset(text, 'A', sizeof(text));
	memcpy(text, "MPIB_", 5);
	text[127] = '\0';
	assert_int_equal(check(text).count, 1);
}

TEST(variables_that_only_the_proxy_reads_are_listed)
{
	char run[] = "MPIB_RUN_DIR=/x", mode[] = "MPIB_MODE=vanilla";
	char qp[] = "MPIB_SUP_QP=2", odd[] = "MPIB_FRUIT=1", path[] = "PATH=/";
	char *env[] = { path, mode, run, odd, qp, NULL };
	char *none[] = { path, run, odd, NULL };
	char text[64];

	assert_int_equal(mpib_environ_list(env, mpib_environ_is_proxys, text,
					   sizeof(text)),
			 2);
	assert_string_equal(text, "MPIB_MODE, MPIB_SUP_QP");
	assert_int_equal(mpib_environ_list(none, mpib_environ_is_proxys, text,
					   sizeof(text)),
			 0);
	assert_string_equal(text, "");
}

TEST(a_very_long_list_is_truncated)
{
	char *env[201], names[200][40], text[64];

	for (unsigned i = 0; i < 200; i++) {
		env[i] = names[i];
		snprintf(names[i], sizeof(names[i]), "MPIB_QUOTA_CLIENTS=%u",
			 i);
	}
	env[200] = NULL;
	for (size_t len = 30; len <= sizeof(text); len++) {
		assert_int_equal(mpib_environ_list(env, mpib_environ_is_proxys,
						   text, len),
				 200);
		assert_true(strlen(text) < len);
		assert_string_equal(text + strlen(text) - 5, ", ...");
	}
}
