/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an agent tells mpib-proxy, in advanced mode, what share of each
 * connection's payload goes over SUP. Both files lie in the agent directory,
 * MPIB_AGENT_DIR, by default /tmp/mpib, which the proxy accepts only if it
 * belongs to root or to the proxy's user and nobody else may write in it.
 *
 * agent.sock, SOCK_SEQPACKET, the agent listens: one mpib_agent_request a
 * packet, each REGISTER answered by one mpib_agent_response, in order. The
 * proxy registers each connection, sending or receiving, when it is ready and
 * deregisters it when it closes; hanging up deregisters all. Addresses are IPv4
 * in network order, SUP's 0 where there is none.
 *
 * hints, 4112 bytes, made by the agent and mapped read-only by the proxy: one
 * entry a registered connection, named by hint_slot. The entry's seq is odd
 * while it is written: one writer makes it odd, writes, and makes it even. A
 * reader looks a bounded number of times and keeps what it had if the writer
 * never finishes, so a writer that dies stops nobody. A hint takes effect with
 * the next message. All zero is the safe state: everything on SOUT.
 *
 * Integers are native; the magic is the number 0x4D504948, whatever its bytes
 * spell.
 */
#ifndef MPIB_AGENT_H
#define MPIB_AGENT_H

#include <mpib/abi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPIB_AGENT_DIR "/tmp/mpib"
#define MPIB_AGENT_SOCK "agent.sock"
#define MPIB_AGENT_HINTS "hints"

#define MPIB_HINT_MAGIC 0x4D504948u
#define MPIB_HINT_VERSION 1u
#define MPIB_HINT_MAX_ENTRIES 256u
#define MPIB_HINT_SUP_BW_MAX 1024u
#define MPIB_HINT_TRIES 8

struct mpib_hint_header {
	uint32_t magic;
	uint32_t max_entries;
	uint32_t version;
	uint32_t flags; /* 0 */
};

struct mpib_hint_entry {
	uint32_t sup_bw; /* SUP's share, parts per 1024, 0..1024 */
	uint32_t seq;
	uint32_t src_ip; /* of SOUT, network order */
	uint32_t dst_ip;
};

struct mpib_hint_shm {
	struct mpib_hint_header header;
	struct mpib_hint_entry entries[MPIB_HINT_MAX_ENTRIES];
};

MPIB_ABI_ASSERT(sizeof(struct mpib_hint_header) == 16);
MPIB_ABI_ASSERT(sizeof(struct mpib_hint_entry) == 16);
MPIB_ABI_ASSERT(sizeof(struct mpib_hint_shm) == 4112);
MPIB_ABI_ASSERT(offsetof(struct mpib_hint_shm, entries) == 16);

enum mpib_agent_type {
	MPIB_AGENT_REGISTER = 1,
	MPIB_AGENT_DEREGISTER = 2,
};

struct mpib_agent_request {
	uint32_t type; /* enum mpib_agent_type */
	uint32_t rsvd;
	uint64_t conn_id; /* proxy's PID << 16 | counter */
	uint32_t sout_src_ip, sout_dst_ip;
	uint32_t sup_src_ip, sup_dst_ip;
};

struct mpib_agent_response {
	int32_t status; /* 0, or -errno: -ENOSPC when all slots are taken */
	uint32_t hint_slot;
};

MPIB_ABI_ASSERT(sizeof(struct mpib_agent_request) == 32);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_response) == 8);

/* The only writer of the entry. Wait-free. */
static inline void mpib_hint_write(struct mpib_hint_entry *e, uint32_t sup_bw)
{
	/* Odd also when a writer died before us, inside its own write. */
	uint32_t odd = __atomic_load_n(&e->seq, __ATOMIC_RELAXED) | 1;

	__atomic_store_n(&e->seq, odd, __ATOMIC_RELAXED);
	/* Release pairs with the acquire of sup_bw in mpib_hint_read(): who
	 * sees this value sees seq odd, or later. */
	__atomic_store_n(&e->sup_bw, sup_bw, __ATOMIC_RELEASE);
	/* Release pairs with the first acquire of seq there. */
	__atomic_store_n(&e->seq, odd + 1, __ATOMIC_RELEASE);
}

/* The entry's sup_bw, or last when a writer is inside it all the while. Any
 * number of readers; bounded. */
static inline uint32_t mpib_hint_read(const struct mpib_hint_entry *e,
				      uint32_t last)
{
	for (int i = 0; i < MPIB_HINT_TRIES; i++) {
		/* Acquire pairs with the last release in mpib_hint_write(). */
		uint32_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE);
		/* Acquire pairs with the release of sup_bw there: seq is read
		 * again after it. */
		uint32_t sup_bw = __atomic_load_n(&e->sup_bw, __ATOMIC_ACQUIRE);

		if (!(seq & 1) &&
		    __atomic_load_n(&e->seq, __ATOMIC_RELAXED) == seq)
			return sup_bw;
	}
	return last;
}

#ifdef __cplusplus
}
#endif

#endif
