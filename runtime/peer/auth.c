/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/auth.h"

#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/types.h>

#include "base/text.h"

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

/* Return what is wrong with a key of *n bytes, or NULL. Drop a newline at the
 * end: an editor may have added it on one node only, and then the nodes would
 * have different keys. */
static const char *key_fault(const unsigned char *buf, ssize_t *n)
{
	if (*n > FILE_MAX)
		return wrong_size;
	*n -= buf[*n - 1] == '\n';
	if (*n < FILE_MIN)
		return wrong_size;
	/* Refuse a key whose bytes are all equal, because such a key could be
	 * guessed. A full disk or dd from /dev/zero makes such files. */
	return memcmp(buf, buf + 1, (size_t)*n - 1) == 0
		       ? "its bytes are all the same (make a random key: "
			 "head -c 32 /dev/urandom)"
		       : NULL;
}

int mpib_cluster_key_load(const char *path, unsigned flags,
			  struct mpib_cluster_key *key, const char **bad)
{
	unsigned char buf[FILE_MAX + 1];
	ssize_t n = mpib_file_read(path, MPIB_FILE_SECRET | flags, buf,
				   sizeof(buf), bad);

	if (n < 0)
		return (int)n;
	*bad = sodium_init() < 0 ? "it cannot be read" : key_fault(buf, &n);
	if (!*bad) {
		crypto_generichash(key->key, sizeof(key->key), buf, (size_t)n,
				   NULL, 0);
		key->set = true;
	}
	sodium_memzero(buf, sizeof(buf));
	return *bad ? -EINVAL : 0;
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
