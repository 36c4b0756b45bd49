/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/auth.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "test.h"

static char path[64];

static int write_key(const void *text, size_t len, mode_t mode)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/mpib-key.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return 0;
}

static struct mpib_cluster_key load_bytes(const void *text, size_t len)
{
	struct mpib_cluster_key key = { 0 };
	const char *bad;

	write_key(text, len, 0600);
	assert_int_equal(
		mpib_cluster_key_load(path, MPIB_FILE_OWNED, &key, &bad), 0);
	unlink(path);
	assert_true(key.set);
	return key;
}

static struct mpib_cluster_key load(const char *text)
{
	return load_bytes(text, strlen(text));
}

static void expect_refused(const char *text, size_t len, mode_t mode,
			   const char *reason)
{
	struct mpib_cluster_key key = { 0 };
	const char *bad = "";

	write_key(text, len, mode);
	assert_int_equal(mpib_cluster_key_load(path, 0, &key, &bad), -EINVAL);
	unlink(path);
	assert_false(key.set);
	assert_in(bad, reason);
}

TEST(a_key_file_that_others_can_read_is_refused)
{
	expect_refused("0123456789abcdef", 16, 0640, "chmod 600");
	expect_refused("0123456789abcdef", 16, 0602, "chmod 600");
}

TEST(a_key_file_of_another_user_is_refused)
{
	struct mpib_cluster_key key = { 0 };
	const char *bad = "";

	if (geteuid() != 0)
		skip();
	write_key("0123456789abcdef", 16, 0600);
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(mpib_cluster_key_load(path, 0, &key, &bad), 0);
	assert_int_equal(
		mpib_cluster_key_load(path, MPIB_FILE_OWNED, &key, &bad),
		-EINVAL);
	assert_in(bad, "another user");
	unlink(path);
}

TEST(a_key_file_of_a_wrong_size_is_refused)
{
	char *big = calloc(1, 4097);

	assert_non_null(big);
	expect_refused("0123456789abcde", 15, 0600, "16 to 4096");
	expect_refused(big, 4097, 0600, "16 to 4096");
	free(big);
}

/* A crash, or dd with the wrong input, may leave such a file. */
TEST(a_key_of_one_byte_repeated_is_refused)
{
	char same[4096] = { 0 };

	expect_refused(same, 32, 0600, "all the same");
	memset(same, 'x', sizeof(same));
	expect_refused(same, 16, 0600, "all the same");
	expect_refused(same, 4096, 0600, "all the same");
	same[31] = 'y';
	expect_refused(same, 31, 0600, "all the same");
	load_bytes(same, 32);
}

TEST(the_newline_that_ends_a_key_file_does_not_count)
{
	struct mpib_cluster_key key = load("the key of this cluster");
	struct mpib_cluster_key same = load("the key of this cluster\n");
	struct mpib_cluster_key other = load("the key of this cluster\n\n");

	assert_memory_equal(&key, &same, sizeof(key));
	assert_memory_not_equal(&key, &other, sizeof(key));
	expect_refused("0123456789abcde\n", 16, 0600, "16 to 4096");
}

TEST(a_proof_is_valid_for_one_key_one_end_and_one_greeting)
{
	struct mpib_cluster_key key = load("the key of this cluster");
	struct mpib_cluster_key other = load("the key of another one");
	uint8_t proof[MPIB_AUTH_BYTES];
	struct mpib_auth a = { 0 }, b;

	mpib_auth_add(&a, (const uint8_t *)"HELLO", 5);
	b = a;
	mpib_auth_prove(&key, &a, true, proof);
	assert_true(mpib_auth_check(&key, &a, true, proof));
	assert_false(mpib_auth_check(&key, &a, false, proof));
	assert_false(mpib_auth_check(&other, &a, true, proof));
	assert_true(mpib_auth_check(&key, &b, true, proof));
	mpib_auth_add(&b, (const uint8_t *)"WELCOME", 7);
	assert_false(mpib_auth_check(&key, &b, true, proof));
	b = (struct mpib_auth){ 0 };
	mpib_auth_add(&b, (const uint8_t *)"HELLo", 5);
	assert_false(mpib_auth_check(&key, &b, true, proof));
}

TEST(only_a_node_with_a_key_sends_a_challenge)
{
	struct mpib_cluster_key key = load("the key of this cluster"),
				none = { 0 };
	uint8_t a[MPIB_AUTH_BYTES], b[MPIB_AUTH_BYTES];

	mpib_auth_challenge(&key, a);
	mpib_auth_challenge(&key, b);
	assert_true(mpib_auth_given(a));
	assert_memory_not_equal(a, b, sizeof(a));
	mpib_auth_challenge(&none, a);
	assert_false(mpib_auth_given(a));
}

TEST(without_a_key_only_a_proof_of_zeros_is_accepted)
{
	struct mpib_cluster_key none = { 0 };
	uint8_t proof[MPIB_AUTH_BYTES];
	struct mpib_auth a = { { 1 } };

	mpib_auth_prove(&none, &a, true, proof);
	assert_true(mpib_auth_check(&none, &a, true, proof));
	proof[7] = 1;
	assert_false(mpib_auth_check(&none, &a, true, proof));
}

/* Return whether the end with this seal accepts the message. An accepted
 * message must decrypt to `text`. */
static bool taken(struct mpib_seal *s, const uint8_t *msg, size_t len,
		  const uint8_t *seal, const char *text)
{
	uint8_t copy[64];

	memcpy(copy, msg, len);
	if (!mpib_seal_open(s, copy, len, seal))
		return false;
	assert_memory_equal(copy, text, len);
	return true;
}

TEST(a_sealed_message_cannot_be_changed_repeated_or_dropped)
{
	struct mpib_cluster_key key = load("the key of this cluster");
	uint8_t first[] = "message", second[] = "message";
	uint8_t seal[MPIB_SEAL_BYTES], next[MPIB_SEAL_BYTES];
	struct mpib_seal tx, rx, back;
	struct mpib_auth a = { { 1 } };

	mpib_seal_init(&tx, &key, &a, false);
	mpib_seal_close(&tx, first, 7, seal);
	mpib_seal_close(&tx, second, 7, next);
	mpib_seal_init(&rx, &key, &a, false);
	/* the first is missing */
	assert_false(taken(&rx, second, 7, next, "message"));
	mpib_seal_init(&rx, &key, &a, false);
	assert_true(taken(&rx, first, 7, seal, "message"));
	assert_false(taken(&rx, first, 7, seal, "message")); /* repeated */
	mpib_seal_init(&rx, &key, &a, false);
	assert_false(taken(&rx, first, 6, seal, "message")); /* shorter */
	first[3] ^= 1;
	mpib_seal_init(&rx, &key, &a, false);
	assert_false(taken(&rx, first, 7, seal, "message")); /* changed */
	first[3] ^= 1;
	mpib_seal_init(&back, &key, &a, true);
	assert_false(taken(&back, first, 7, seal, "message")); /* sent back */
}

TEST(a_message_is_unreadable_without_the_key)
{
	struct mpib_cluster_key key = load("the key of this cluster");
	uint8_t msg[48], same[48], seal[MPIB_SEAL_BYTES];
	struct mpib_auth a = { { 1 } };
	struct mpib_seal tx;
	unsigned alike = 0;

	mpib_seal_init(&tx, &key, &a, false);
	memset(msg, 'a', sizeof(msg));
	memset(same, 'a', sizeof(same));
	mpib_seal_close(&tx, msg, sizeof(msg), seal);
	mpib_seal_close(&tx, same, sizeof(same), seal);
	for (unsigned i = 0; i < sizeof(msg); i++)
		alike += (msg[i] == 'a') + (msg[i] == same[i]);
	/* By chance, one byte in 256 is equal. */
	assert_in_range(alike, 0, 12);
}
