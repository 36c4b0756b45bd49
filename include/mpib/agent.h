/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an agent tells mpib-proxy, in advanced or adaptive mode, what share of
 * each connection's payload goes over SUP. The agent's socket and its file of
 * hints lie in the agent directory (MPIB_AGENT_DIR, by default /tmp/mpib). The
 * proxy accepts that directory only if it belongs to root, to the proxy's user
 * or to the user that agent.user names, and no other user may write in it.
 *
 * agent.sock: SOCK_SEQPACKET, the agent listens and the proxy connects. The
 * proxy sends one mpib_agent_request per packet; the agent answers each
 * REGISTER with one mpib_agent_response, in order. The proxy registers each
 * sending connection when the connection is ready, and deregisters it when the
 * connection closes. Receiving connections split nothing and are not
 * registered. When the proxy hangs up, all its connections are deregistered.
 * Addresses are IPv4 in network order; the SUP addresses are 0 on a connection
 * without SUP.
 *
 * hints: created by the agent and mapped read-only by the proxy. The file
 * begins with struct mpib_hint_shm (4112 bytes). The number of struct
 * mpib_hint_entry after it is `header.more`. `hint_slot` of a response is the
 * index of an entry among all entries of the file. The agent may give several
 * connections the same entry. Each entry is a sequence lock with one writer:
 * the writer makes `seq` odd, writes `sup_bw`, and makes `seq` even. The proxy
 * tries MPIB_HINT_TRIES times to read an entry and keeps its last value if the
 * writer never finishes, so an agent that dies during a write blocks no reader.
 * A hint takes effect with the next message. A zeroed file is the safe state:
 * all traffic on SOUT.
 *
 * A proxy in adaptive mode may register its connections, too, and then sets
 * MPIB_AGENT_ADAPTIVE in its requests. The proxy itself splits each connection
 * without a hint and each connection whose entry is MPIB_HINT_OWN. So an agent
 * can limit itself to connections that it has a reason to steer. In advanced
 * mode MPIB_HINT_OWN means the same as any number above 1024: all bytes go over
 * SUP. An agent or proxy that does not know MPIB_HINT_OWN treats it that way,
 * too.
 *
 * If the proxy's requests have MPIB_AGENT_HEARS, the agent may send a
 * mpib_agent_summary and mpib_agent_reasons, repeatedly and at any time. The
 * proxy sends the summary to proxies of other nodes, so that their agents avoid
 * a rail that is sick or in maintenance on this node before the rail fails. The
 * proxy's statistics show the summary and the reasons.
 *
 * Integers, including the magic, are in native byte order.
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
/* The maximum number of entries after struct mpib_hint_shm, and of all entries
 * in a file. */
#define MPIB_HINT_MORE_MAX 3840u
#define MPIB_HINT_SLOTS_MAX (MPIB_HINT_MAX_ENTRIES + MPIB_HINT_MORE_MAX)
#define MPIB_HINT_SUP_BW_MAX 1024u
/* Leave the split to a proxy in adaptive mode. */
#define MPIB_HINT_OWN 1025u
#define MPIB_HINT_TRIES 8

struct mpib_hint_header {
	uint32_t magic;
	uint32_t max_entries; /* MPIB_HINT_MAX_ENTRIES */
	uint32_t version;
	uint32_t more; /* entries after struct mpib_hint_shm */
};

struct mpib_hint_entry {
	uint32_t sup_bw; /* SUP's share of 1024, or MPIB_HINT_OWN */
	uint32_t seq;
	uint32_t src_ip; /* address of the SOUT rail, network order */
	uint32_t dst_ip; /* address of the peer of the entry's connections */
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

/* Flags of a REGISTER: the proxy supports MPIB_HINT_OWN, or summaries. */
#define MPIB_AGENT_ADAPTIVE 1u
#define MPIB_AGENT_HEARS 2u

struct mpib_agent_request {
	uint32_t type; /* enum mpib_agent_type */
	uint32_t flags; /* MPIB_AGENT_*; older agents ignore them */
	uint64_t conn_id; /* the proxy's PID << 16 | a counter */
	uint32_t sout_src_ip, sout_dst_ip;
	uint32_t sup_src_ip, sup_dst_ip;
};

struct mpib_agent_response {
	int32_t status; /* 0, or -errno; -ENOSPC: all entries are taken */
	uint32_t hint_slot;
};

#define MPIB_AGENT_TOLD_MAX 32u
#define MPIB_AGENT_TOLD_ISLAND 32u
#define MPIB_AGENT_REASON 96u /* bytes of a reason, including its zero byte */

/* The agent steers nothing, and only reports what it would do. */
#define MPIB_AGENT_DRY 1u

/* The agent's view of this node. Masks have one bit per rail, SOUT is the
 * lowest bit. A drain applies to one rail and to the peers in one network.
 * Texts end with a zero byte. */
struct mpib_agent_summary {
	uint8_t sick, congested;
	uint16_t windows;
	uint32_t flags;
	char island[MPIB_AGENT_TOLD_ISLAND]; /* printable; "": no island */
	struct mpib_agent_told {
		uint8_t addr[16]; /* IPv6, or an IPv4-mapped address */
		uint8_t bits; /* prefix length, of 128 bits */
		uint8_t rail; /* 0: SOUT, 1: SUP */
	} window[MPIB_AGENT_TOLD_MAX];
	char config[128]; /* path of the agent's file; "": it has none */
	char fault[256]; /* why reloading the rules failed, or "" */
	struct {
		uint64_t since; /* seconds since the epoch; 0: healthy */
		char why[MPIB_AGENT_REASON];
	} rail[2];
};

/* Why the entry of a connection has its value. */
struct mpib_agent_reason {
	uint32_t hint_slot;
	/* Value of the entry; in a dry run the proposed value. */
	uint32_t sup_bw;
	uint64_t since; /* seconds since the epoch */
	char why[MPIB_AGENT_REASON]; /* ends with a zero byte */
};

MPIB_ABI_ASSERT(sizeof(struct mpib_agent_summary) == 1208);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_reason) == 112);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_request) == 32);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_response) == 8);

/* Return the size in bytes of a hint file with this many entries in all. */
static inline size_t mpib_hint_bytes(uint32_t slots)
{
	return sizeof(struct mpib_hint_header) +
	       slots * sizeof(struct mpib_hint_entry);
}

/* Return the entry with that index, also beyond the first
 * MPIB_HINT_MAX_ENTRIES. The caller has checked that the file is long
 * enough. */
static inline struct mpib_hint_entry *mpib_hint_at(const void *shm,
						   uint32_t slot)
{
	return (struct mpib_hint_entry *)((uintptr_t)shm +
					  mpib_hint_bytes(slot));
}

/* Set an entry's hint. Wait-free. Called only by the agent's single writer
 * thread. */
static inline void mpib_hint_write(struct mpib_hint_entry *e, uint32_t sup_bw)
{
	/* An agent that died during a write left `seq` odd, so set the lowest
	 * bit instead of adding 1. */
	uint32_t odd = __atomic_load_n(&e->seq, __ATOMIC_RELAXED) | 1;

	__atomic_store_n(&e->seq, odd, __ATOMIC_RELAXED);
	/* Release pairs with the acquire of sup_bw in mpib_hint_read(): a
	 * reader that sees this value also sees seq odd, or a later seq. */
	__atomic_store_n(&e->sup_bw, sup_bw, __ATOMIC_RELEASE);
	/* Release pairs with the first acquire of seq in mpib_hint_read(). */
	__atomic_store_n(&e->seq, odd + 1, __ATOMIC_RELEASE);
}

/* Return the entry's sup_bw, or `last` if the writer was changing the entry at
 * each of MPIB_HINT_TRIES tries. Wait-free. Any number of readers. */
static inline uint32_t mpib_hint_read(const struct mpib_hint_entry *e,
				      uint32_t last)
{
	for (int i = 0; i < MPIB_HINT_TRIES; i++) {
		/* Acquire pairs with the last release in mpib_hint_write(). */
		uint32_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE);
		/* Acquire pairs with the release of sup_bw in
		 * mpib_hint_write(), and keeps the second load of seq behind
		 * this load. */
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
