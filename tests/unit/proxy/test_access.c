/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/web/access.h and config/check.c: who may read the statistics over
 * HTTP. */
#include "web/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/stat.h>

#include "config/config.h"
#include "scratch.h"
#include "test.h"

#define TOKEN "0123456789abcdef+/=="

static struct mpib_config cfg;
static struct mpib_access rights;
static char why[MPIB_WHY_MAX];

static int begin(void **state)
{
	memset(&cfg, 0, sizeof(cfg));
	memset(&rights, 0, sizeof(rights));
	return scratch_make(state);
}

static void write_secret(const char *name, const char *text, mode_t mode)
{
	scratch_write(name, text);
	assert_int_equal(chmod(scratch_path(name), mode), 0);
}

static void set_file(char *setting, const char *name)
{
	snprintf(setting, 256, "%s", scratch_path(name));
}

static void assert_why(int rc, int error, const char *part)
{
	if (rc != -error || !strstr(why, part) || !strchr(why, '('))
		fail_msg("%d, but \"%s\" is not in \"%s\"", rc, part, why);
}

static bool asked_as(const char *host, const char *own)
{
	struct in_addr in = { 0 };

	if (own)
		assert_int_equal(inet_pton(AF_INET, own, &in), 1);
	return mpib_access_host(&rights, host, in);
}

#define CASE(name) TEST_OF(name, begin, scratch_remove)

CASE(the_host_header_may_be_localhost_or_a_loopback_address)
{
	static const char *const good[] = { "127.0.0.1", "127.0.0.1:9495",
					    "127.9.8.7:1", "localhost",
					    "LOCALHOST:9495" };
	static const char *const bad[] = { "",
					   ":9495",
					   "evil.example",
					   "127.0.0.1.evil.example",
					   "localhost.evil.example:9495",
					   "10.0.0.1",
					   "0.0.0.0:9495" };

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!asked_as(good[i], NULL))
			fail_msg("%s is refused", good[i]);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (asked_as(bad[i], NULL))
			fail_msg("%s is accepted", bad[i]);
	}
	assert_false(asked_as(NULL, NULL));
}

CASE(the_host_header_may_be_the_own_address_or_a_listed_name)
{
	assert_true(asked_as("10.0.0.7:9495", "10.0.0.7"));
	assert_false(asked_as("10.0.0.8:9495", "10.0.0.7"));
	assert_false(asked_as("node7:9495", "10.0.0.7"));
	snprintf(rights.hosts, sizeof(rights.hosts), "node7, node7.example");
	assert_true(asked_as("node7:9495", "10.0.0.7"));
	assert_true(asked_as("Node7.Example", "10.0.0.7"));
	assert_false(asked_as("node", NULL));
	assert_false(asked_as("node77", NULL));
	assert_false(asked_as("node7,node7.example", NULL));
	assert_false(asked_as(",", NULL));
}

CASE(only_the_complete_token_is_accepted)
{
	/* The base64 texts of this test encode TOKEN, "user:" with half of
	 * TOKEN, ":" TOKEN, and "user:" TOKEN. */
	static const char *const bad[] = { "",
					   "Bearer",
					   "Bearer ",
					   "Bearer 0123456789abcdef+/=",
					   "Bearer 0123456789abcdef+/==x",
					   "Bearer 0123456789ABCDEF+/==",
					   TOKEN,
					   "Basic 0123456789abcdef+/==",
					   "Basic MDEyMzQ1Njc4OWFiY2RlZisvPT0=",
					   "Basic dXNlcjowMTIzNDU2Nzg5" };

	assert_true(mpib_access_token(&rights, NULL));
	snprintf(rights.token, sizeof(rights.token), TOKEN);
	assert_false(mpib_access_token(&rights, NULL));
	assert_true(mpib_access_token(&rights, "Bearer " TOKEN));
	assert_true(mpib_access_token(&rights, "bearer " TOKEN));
	assert_true(mpib_access_token(&rights,
				      "Basic OjAxMjM0NTY3ODlhYmNkZWYrLz09"));
	assert_true(mpib_access_token(
		&rights, "Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVmKy89PQ=="));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (mpib_access_token(&rights, bad[i]))
			fail_msg("\"%s\" is accepted", bad[i]);
	}
}

CASE(secrets_that_others_can_read_are_refused)
{
	write_secret("token", TOKEN "\n", 0600);
	set_file(cfg.metrics_token_file, "token");
	assert_int_equal(mpib_access_open(&rights, &cfg, why), 0);
	assert_string_equal(rights.token, TOKEN);
	write_secret("token", TOKEN "\n", 0640);
	assert_why(mpib_access_open(&rights, &cfg, why), EINVAL, "chmod 600");
	write_secret("token", "short\n", 0600);
	assert_why(mpib_access_open(&rights, &cfg, why), EINVAL, "16 to 1024");
	set_file(cfg.metrics_token_file, "none");
	assert_int_equal(mpib_access_open(&rights, &cfg, why), -EINVAL);
	cfg.metrics_token_file[0] = '\0';
	write_secret("cert", "certificate", 0644);
	write_secret("key", "key", 0600);
	set_file(cfg.metrics_cert, "cert");
	set_file(cfg.metrics_key, "key");
	assert_int_equal(mpib_access_open(&rights, &cfg, why), 0);
	assert_string_equal(rights.cert, "certificate");
	assert_string_equal(rights.key, "key");
	mpib_access_close(&rights);
	write_secret("key", "key", 0644);
	assert_why(mpib_access_open(&rights, &cfg, why), EINVAL, "chmod 600");
}

CASE(other_machines_are_served_only_with_tls_and_a_token)
{
	assert_int_equal(mpib_config_http(&cfg, why), 0);
	snprintf(cfg.metrics_listen, sizeof(cfg.metrics_listen),
		 "127.0.0.1:9495");
	assert_int_equal(mpib_config_http(&cfg, why), 0);
	snprintf(cfg.metrics_listen, sizeof(cfg.metrics_listen),
		 "0.0.0.0:9495");
	assert_why(mpib_config_http(&cfg, why), EINVAL, "reach it");
	write_secret("token", TOKEN, 0600);
	write_secret("cert", "certificate", 0644);
	write_secret("key", "key", 0600);
	set_file(cfg.metrics_token_file, "token");
	assert_why(mpib_config_http(&cfg, why), EINVAL, "reach it");
	set_file(cfg.metrics_cert, "cert");
	assert_why(mpib_config_http(&cfg, why), EINVAL, "give both");
	set_file(cfg.metrics_key, "key");
	assert_int_equal(mpib_config_http(&cfg, why), 0);
	write_secret("key", "key", 0604);
	assert_why(mpib_config_http(&cfg, why), EINVAL, "metrics.key");
	write_secret("key", "key", 0600);
	set_file(cfg.metrics_token_file, "none");
	assert_int_equal(mpib_config_http(&cfg, why), -EINVAL);
	assert_in(why, "metrics.token_file");
}
