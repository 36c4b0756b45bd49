/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer links of a cluster with a key. Both ends prove that they know it, each
 * over the other's fresh challenge, and then seal every message: whoever lacks
 * the key can neither greet, nor speak on, nor replay a link. Nothing is
 * hidden, only proven. BLAKE2b with a key, by libsodium; control thread.
 */
#ifndef MPIB_PEER_AUTH_H
#define MPIB_PEER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_AUTH_BYTES 32u /* of challenges, proofs and keys */
#define MPIB_SEAL_BYTES 16u

struct mpib_cluster_key {
	bool set; /* false: every check passes, every proof is zeros */
	uint8_t key[MPIB_AUTH_BYTES];
};

/* Both ends' challenges: what makes this greeting unlike any other. */
struct mpib_auth {
	uint8_t caller[MPIB_AUTH_BYTES], called[MPIB_AUTH_BYTES];
};

/* One direction of a link. */
struct mpib_seal {
	bool on;
	uint8_t key[MPIB_AUTH_BYTES];
	uint64_t count; /* messages, so that none can be repeated or left out */
};

/*
 * From a file of 16 to 4096 bytes that nobody but its owner, root or this
 * user, can read or write. -errno with a reason in why that names path.
 */
int mpib_cluster_key_load(const char *path, struct mpib_cluster_key *key,
			  char *why, size_t why_len);

/* Random, never zeros; zeros without a key. */
void mpib_auth_challenge(const struct mpib_cluster_key *key, uint8_t *c);
/* As a greeting tells whether its sender has a key. */
bool mpib_auth_given(const uint8_t *c);
/* What the called, or the calling, end shows the other. */
void mpib_auth_prove(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called, uint8_t *proof);
bool mpib_auth_check(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called,
		     const uint8_t *proof);

/* For what the called, or the calling, end sends from now on. Off without a
 * key. */
void mpib_seal_init(struct mpib_seal *s, const struct mpib_cluster_key *key,
		    const struct mpib_auth *a, bool called);
/* The seal of the next message of this direction. */
void mpib_seal_make(struct mpib_seal *s, const uint8_t *msg, size_t len,
		    uint8_t *seal);
/* False: it is not the next message of who has the key. */
bool mpib_seal_check(struct mpib_seal *s, const uint8_t *msg, size_t len,
		     const uint8_t *seal);

#endif
