/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/auth.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MIN 16
#define FILE_MAX 4096
#define NONCE_BYTES crypto_aead_chacha20poly1305_ietf_NPUBBYTES

_Static_assert(MPIB_AUTH_BYTES == crypto_generichash_BYTES, "hash size");
_Static_assert(MPIB_SEAL_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES,
	       "seal size");
_Static_assert(MPIB_AUTH_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES,
	       "key size");

static const char wrong_size[] =
	"a key has 16 to 4096 bytes (make one: head -c 32 /dev/urandom)";

static const char *key_file_fault(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "it is not a regular file";
	if (st->st_mode & 077)
		return "others can read or write it (chmod 600)";
	if (st->st_size < FILE_MIN || st->st_size > FILE_MAX)
		return wrong_size;
	return NULL;
}

/* Read a key into `buf`, and set *n to its length. Return NULL, or what is
 * wrong with the key. Drop a newline at the end: an editor may have added it on
 * one node only, and then the nodes would have different keys. */
static const char *key_read(int fd, unsigned char *buf, size_t *n)
{
	ssize_t got = read(fd, buf, FILE_MAX);

	if (got < FILE_MIN)
		return "it cannot be read";
	*n = (size_t)got - (buf[got - 1] == '\n');
	if (*n < FILE_MIN)
		return wrong_size;
	/* Refuse a key whose bytes are all equal, because such a key could be
	 * guessed. A full disk or dd from /dev/zero makes such files. */
	return memcmp(buf, buf + 1, *n - 1) == 0
		       ? "its bytes are all the same (make a random key: "
			 "head -c 32 /dev/urandom)"
		       : NULL;
}

const char *mpib_cluster_key_fault(const char *path)
{
	unsigned char buf[FILE_MAX];
	const char *bad;
	struct stat st;
	size_t n;
	int fd;

	if (stat(path, &st) < 0)
		return errno == EACCES ? NULL : strerror(errno);
	bad = key_file_fault(&st);
	if (bad)
		return bad;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == EACCES ? NULL : strerror(errno);
	bad = key_read(fd, buf, &n);
	sodium_memzero(buf, sizeof(buf));
	close(fd);
	return bad;
}

int mpib_cluster_key_load(const char *path, struct mpib_cluster_key *key,
			  char *why, size_t why_len)
{
	unsigned char buf[FILE_MAX];
	const char *bad = NULL;
	struct stat st;
	size_t n;
	int rc = -EINVAL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) < 0) {
		rc = -errno;
		bad = strerror(errno);
		goto out_close;
	}
	bad = key_file_fault(&st);
	if (!bad && st.st_uid != 0 && st.st_uid != geteuid())
		bad = "it belongs to another user (chown it to root)";
	if (!bad && sodium_init() < 0)
		bad = "it cannot be read";
	if (!bad)
		bad = key_read(fd, buf, &n);
	if (bad)
		goto out_close;
	crypto_generichash(key->key, sizeof(key->key), buf, n, NULL, 0);
	sodium_memzero(buf, sizeof(buf));
	key->set = true;
	rc = 0;

out_close:
	if (bad)
		snprintf(why, why_len, "key file %s: %s", path, bad);
	if (fd >= 0)
		close(fd);
	return rc;
}

void mpib_auth_challenge(const struct mpib_cluster_key *key, uint8_t *c)
{
	memset(c, 0, MPIB_AUTH_BYTES);
	while (key->set && !mpib_auth_given(c))
		randombytes_buf(c, MPIB_AUTH_BYTES);
}

bool mpib_auth_given(const uint8_t *c)
{
	return !sodium_is_zero(c, MPIB_AUTH_BYTES);
}

void mpib_auth_add(struct mpib_auth *a, const uint8_t *msg, size_t len)
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, NULL, 0, MPIB_AUTH_BYTES);
	crypto_generichash_update(&st, a->said, sizeof(a->said));
	crypto_generichash_update(&st, msg, len);
	crypto_generichash_final(&st, a->said, MPIB_AUTH_BYTES);
}

/* Derive a proof, or the key of a seal, from the cluster's key. There are four
 * such values: a proof and a seal key for each end. Each value has its own
 * label, so that no value is valid in place of another. */
static void auth_derive(const struct mpib_cluster_key *key,
			const struct mpib_auth *a, const char *label,
			uint8_t *out)
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, key->key, sizeof(key->key),
				MPIB_AUTH_BYTES);
	crypto_generichash_update(&st, (const unsigned char *)label,
				  strlen(label));
	crypto_generichash_update(&st, a->said, sizeof(a->said));
	crypto_generichash_final(&st, out, MPIB_AUTH_BYTES);
}

void mpib_auth_prove(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called, uint8_t *proof)
{
	memset(proof, 0, MPIB_AUTH_BYTES);
	if (key->set)
		auth_derive(key, a, called ? "mpib called" : "mpib caller",
			    proof);
}

bool mpib_auth_check(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called,
		     const uint8_t *proof)
{
	uint8_t want[MPIB_AUTH_BYTES];

	mpib_auth_prove(key, a, called, want);
	return sodium_memcmp(want, proof, sizeof(want)) == 0;
}

void mpib_seal_init(struct mpib_seal *s, const struct mpib_cluster_key *key,
		    const struct mpib_auth *a, bool called)
{
	s->on = key->set;
	s->count = 0;
	if (s->on)
		auth_derive(key, a,
			    called ? "mpib seal of called"
				   : "mpib seal of caller",
			    s->key);
}

/* Make the nonce of the next message from its number. Each direction of each
 * link has its own key, so no nonce is used twice with the same key. */
static void seal_nonce(struct mpib_seal *s, uint8_t *nonce)
{
	uint64_t count = htole64(s->count++);

	memset(nonce, 0, NONCE_BYTES);
	memcpy(nonce, &count, sizeof(count));
}

void mpib_seal_close(struct mpib_seal *s, uint8_t *msg, size_t len,
		     uint8_t *seal)
{
	uint8_t nonce[NONCE_BYTES];

	seal_nonce(s, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt_detached(
		msg, seal, NULL, msg, len, NULL, 0, NULL, nonce, s->key);
}

bool mpib_seal_open(struct mpib_seal *s, uint8_t *msg, size_t len,
		    const uint8_t *seal)
{
	uint8_t nonce[NONCE_BYTES];

	seal_nonce(s, nonce);
	return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
		       msg, NULL, msg, len, seal, NULL, 0, nonce, s->key) == 0;
}
