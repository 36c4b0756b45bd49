/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of peer links, in a cluster that has a key. Both ends prove
 * that they know the key. Each proof covers all earlier messages of the
 * handshake, including a fresh challenge of the other end. After the handshake,
 * both ends seal every message. Without the key an attacker cannot open or
 * redirect a link, change the handshake, or add, replay or read messages.
 * Proofs use keyed BLAKE2b, and seals use ChaCha20-Poly1305, both from
 * libsodium. Control thread.
 */
#ifndef MPIB_PEER_AUTH_H
#define MPIB_PEER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_AUTH_BYTES 32u /* size of challenges, proofs and keys */
#define MPIB_SEAL_BYTES 16u

struct mpib_cluster_key {
	/* false: there is no key, so every check passes and all proofs are
	 * zeros */
	bool set;
	uint8_t key[MPIB_AUTH_BYTES];
};

/* A hash of all messages of a handshake so far. The hash is all zeros before
 * the first message. The challenges make the hash of each handshake unique. */
struct mpib_auth {
	uint8_t said[MPIB_AUTH_BYTES];
};

/* The state of encrypting or decrypting one direction of a link. */
struct mpib_seal {
	bool on;
	uint8_t key[MPIB_AUTH_BYTES];
	/* Number of messages so far. Both ends count the messages, so they
	 * detect a repeated or missing message. */
	uint64_t count;
};

/* Load a key from a file of 16 to 4096 bytes that are not all equal. No other
 * user may have access to the file. With MPIB_FILE_OWNED in `flags` (text.h),
 * the file must also belong to root or to this user. Return 0, or -errno with
 * the reason in *bad. */
int mpib_cluster_key_load(const char *path, unsigned flags,
			  struct mpib_cluster_key *key, const char **bad);

/* Make a challenge. If there is a key, the challenge is random and not all
 * zeros. Without a key, the challenge is all zeros. */
void mpib_auth_challenge(const struct mpib_cluster_key *key, uint8_t *c);
/* Return whether the sender of a HELLO or WELCOME with this challenge has a
 * key. */
bool mpib_auth_given(const uint8_t *c);
/* Add a sent or received message of the handshake to the hash. */
void mpib_auth_add(struct mpib_auth *a, const uint8_t *msg, size_t len);
/* Make or check the proof of one end of the link: of the called end if `called`
 * is true, otherwise of the calling end. */
void mpib_auth_prove(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called, uint8_t *proof);
bool mpib_auth_check(const struct mpib_cluster_key *key,
		     const struct mpib_auth *a, bool called,
		     const uint8_t *proof);

/* Initialise the seal of one direction of the link: for messages from the
 * called end if `called` is true, otherwise from the calling end. Without a
 * key, messages are not sealed. */
void mpib_seal_init(struct mpib_seal *s, const struct mpib_cluster_key *key,
		    const struct mpib_auth *a, bool called);
/* Encrypt the next message of this direction in place, and write its seal. */
void mpib_seal_close(struct mpib_seal *s, uint8_t *msg, size_t len,
		     uint8_t *seal);
/* Decrypt a message in place. Return false if `msg` is not the next message of
 * this direction, was changed, or was sealed with another key. */
bool mpib_seal_open(struct mpib_seal *s, uint8_t *msg, size_t len,
		    const uint8_t *seal);

#endif
