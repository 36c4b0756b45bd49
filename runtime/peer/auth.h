/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of peer links, in a cluster that has a key. Both ends prove
 * that they know the key, each over all that was said in the greeting up to its
 * proof, with a fresh challenge of the other end in it, and then seal every
 * message. Without the key nobody can open a link or have one opened with
 * somebody else, change what the greeting says, add messages to a link, replay
 * one or read one. Proofs are BLAKE2b with a key, sealed messages
 * ChaCha20-Poly1305, by libsodium. Control thread.
 */
#ifndef MPIB_PEER_AUTH_H
#define MPIB_PEER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_AUTH_BYTES 32u /* of challenges, proofs and keys */
#define MPIB_SEAL_BYTES 16u

struct mpib_cluster_key {
	bool set; /* false: every check passes, all proofs are 0 */
	uint8_t key[MPIB_AUTH_BYTES];
};

/* A hash of what both ends have said in a greeting; zeros: nothing yet. The
 * challenges in it make each greeting unlike any other. */
struct mpib_auth {
	uint8_t said[MPIB_AUTH_BYTES];
};

/* The seal of one direction of a link. */
struct mpib_seal {
	bool on;
	uint8_t key[MPIB_AUTH_BYTES];
	uint64_t count; /* messages so far, so that none can be repeated or left
			   out */
};

/* What is wrong with a key's file, but its owner; NULL: nothing that this process may
 * see. */
const char *mpib_cluster_key_fault(const char *path);
/*
 * Load a key from a file of 16 to 4096 bytes, not all of them the same, that belongs
 * to root or to this user and that nobody else can read or write. 0, or -errno with a
 * reason in why that names path.
 */
int mpib_cluster_key_load(const char *path, struct mpib_cluster_key *key,
			  char *why, size_t why_len);

/* Make a challenge: random and never all zeros, or all zeros without a key. */
void mpib_auth_challenge(const struct mpib_cluster_key *key, uint8_t *c);
/* Whether the sender of a greeting has a key, by its challenge. */
bool mpib_auth_given(const uint8_t *c);
/* A message of the greeting was sent, or came. */
void mpib_auth_add(struct mpib_auth *a, const uint8_t *msg, size_t len);
/* Make, and check, the proof of the called (called true) or the calling end. */
void mpib_auth_prove(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called, uint8_t *proof);
bool mpib_auth_check(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called,
		     const uint8_t *proof);

/* Begin the direction in which the called (called true) or the calling end
 * sends. Seals are off without a key. */
void mpib_seal_init(struct mpib_seal *s, const struct mpib_cluster_key *key,
		    const struct mpib_auth *a, bool called);
/* Encrypt the next message of this direction in its place, and write its seal. */
void mpib_seal_close(struct mpib_seal *s, uint8_t *msg, size_t len,
		     uint8_t *seal);
/* Decrypt it in its place. False: msg is not the next message of an end that has
 * the key. */
bool mpib_seal_open(struct mpib_seal *s, uint8_t *msg, size_t len,
		    const uint8_t *seal);

#endif
