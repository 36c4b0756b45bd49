/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between mpib-proxy and an agent. An agent is a program that
 * chooses the share of each connection's payload that goes over SUP. The proxy
 * uses the agent's choices in advanced and adaptive mode. The agent creates the
 * socket agent.sock and the file "hints" in the agent directory (by default
 * MPIB_AGENT_DIR). The proxy uses this directory only if the directory's owner
 * is root, the proxy's user or the user in the setting agent.user, and if only
 * the owner may write to the directory.
 *
 * agent.sock is a SOCK_SEQPACKET socket. The agent listens, and the proxy
 * connects. The proxy sends one struct mpib_agent_request per packet. The agent
 * answers each REGISTER with one struct mpib_agent_response, in the order of
 * the requests. A DEREGISTER has no answer. The proxy registers a sending
 * connection when the connection is ready, and deregisters it when the
 * connection closes. Receiving connections are not registered, because only
 * senders split messages. When the proxy closes the socket, the agent must
 * treat all connections of the proxy as deregistered.
 *
 * "hints" is a file that the agent creates and the proxy maps read-only. The
 * file begins with struct mpib_hint_shm (4112 bytes). `header.more` is the
 * number of further entries (struct mpib_hint_entry) after this structure.
 * `hint_slot` of a response is the index of the connection's entry among all
 * entries of the file. The agent may give several connections the same entry.
 *
 * Each entry is a seqlock, and the agent is its only writer: the agent makes
 * `seq` odd, writes `sup_bw`, and makes `seq` even. The proxy tries
 * MPIB_HINT_TRIES times to read an entry. If the agent is writing at each try,
 * the proxy uses the previous value of the entry. So an agent that dies during
 * a write blocks no reader. A new hint takes effect with the connection's next
 * message. A file of zeros is safe: all payload goes over SOUT.
 *
 * The requests of a proxy in adaptive mode have the flag MPIB_AGENT_ADAPTIVE.
 * Such a proxy chooses the split of a connection itself if the connection has
 * no hint, or if `sup_bw` of its entry is MPIB_HINT_OWN. So the agent may leave
 * some connections to the proxy. In advanced mode, MPIB_HINT_OWN has the same
 * effect as any other number above 1024: all payload goes over SUP. Agents and
 * proxies that do not support MPIB_HINT_OWN must give it this effect, too.
 *
 * The agent may send struct mpib_agent_summary and struct mpib_agent_reason,
 * one per packet, at any time and any number of times. The size of a packet
 * tells the proxy whether the packet is a response, a summary or a reason. The
 * proxy drains the rails that the last summary calls sick: both ends of each
 * lane of this node avoid them. The drain ends with the next summary that does
 * not call the rail sick, when the agent closes the socket, or when the summary
 * is no longer valid. A device's last rail is never drained. The proxy's
 * statistics show the summary and the reasons.
 *
 * Integers, including magic numbers, are in native byte order. IPv4 addresses
 * are in network byte order.
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
/* Number of entries in struct mpib_hint_shm. */
#define MPIB_HINT_MAX_ENTRIES 256u
/* The maximum number of entries after struct mpib_hint_shm. */
#define MPIB_HINT_MORE_MAX 3840u
/* The maximum number of all entries in a file. */
#define MPIB_HINT_SLOTS_MAX (MPIB_HINT_MAX_ENTRIES + MPIB_HINT_MORE_MAX)
/* The largest share in `sup_bw`: all payload goes over SUP. */
#define MPIB_HINT_SUP_BW_MAX 1024u
/* Value of `sup_bw`: a proxy in adaptive mode chooses the split itself. */
#define MPIB_HINT_OWN 1025u
#define MPIB_HINT_TRIES 8

struct mpib_hint_header {
	uint32_t magic;
	uint32_t max_entries; /* always MPIB_HINT_MAX_ENTRIES */
	uint32_t version; /* MPIB_HINT_VERSION */
	uint32_t more; /* number of entries after struct mpib_hint_shm */
};

struct mpib_hint_entry {
	/* SUP's share of the payload in 1024ths, or MPIB_HINT_OWN */
	uint32_t sup_bw;
	uint32_t seq; /* odd while the agent writes the entry */
	uint32_t src_ip; /* address of this node's SOUT rail */
	uint32_t dst_ip; /* address of the peer's SOUT rail */
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

/* Flag of a request: the proxy is in adaptive mode and supports
 * MPIB_HINT_OWN. */
#define MPIB_AGENT_ADAPTIVE 1u

struct mpib_agent_request {
	uint32_t type; /* enum mpib_agent_type */
	uint32_t flags; /* 0 or MPIB_AGENT_ADAPTIVE */
	/* the proxy's pid << 16, plus a counter; no two connections of the
	 * proxy have the same id */
	uint64_t conn_id;
	/* addresses of the rails at this node and at the peer */
	uint32_t sout_src_ip, sout_dst_ip;
	uint32_t sup_src_ip, sup_dst_ip; /* 0: the connection has no SUP */
};

struct mpib_agent_response {
	int32_t status; /* 0, or -errno; -ENOSPC: all entries are in use */
	/* index of the connection's entry, if `status` is 0 */
	uint32_t hint_slot;
};

#define MPIB_AGENT_REASON 96u /* bytes, including the zero byte */
#define MPIB_AGENT_VALID_S 30u /* seconds for which a summary is valid */

/* Flag of a summary (dry run): the agent steers no connection, and the proxy
 * drains no rail. The agent only reports what it would do. */
#define MPIB_AGENT_DRY 1u

/* The agent's view of this node. Texts end with a zero byte. */
struct mpib_agent_summary {
	/* Masks of rails; the lowest bit is SOUT. `sick`: to be drained.
	 * `congested`: to carry less, but not to be drained. */
	uint8_t sick, congested;
	/* number of the agent's drains that are in effect now and end by
	 * themselves */
	uint16_t windows;
	uint32_t flags; /* 0 or MPIB_AGENT_DRY */
	/* path of the agent's configuration file; "": no file */
	char config[128];
	/* why the last reload of that file failed; "": no failure */
	char fault[256];
	/* for each rail, why the rail is sick or congested */
	struct {
		uint64_t since; /* seconds since the epoch; 0: healthy */
		char why[MPIB_AGENT_REASON];
	} rail[2];
};

/* Why a hint entry has its value. */
struct mpib_agent_reason {
	uint32_t hint_slot; /* index of the entry */
	/* Value of the entry. In a dry run: the value that the agent would
	 * write. */
	uint32_t sup_bw;
	uint64_t since; /* seconds since the epoch */
	char why[MPIB_AGENT_REASON]; /* ends with a zero byte */
};

MPIB_ABI_ASSERT(sizeof(struct mpib_agent_summary) == 600);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_reason) == 112);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_request) == 32);
MPIB_ABI_ASSERT(sizeof(struct mpib_agent_response) == 8);

/* Return the size in bytes of a hint file with `slots` entries in all. */
static inline size_t mpib_hint_bytes(uint32_t slots)
{
	return sizeof(struct mpib_hint_header) +
	       slots * sizeof(struct mpib_hint_entry);
}

/* Return the entry with index `slot` in the hint file that is mapped at `shm`.
 * `slot` may be any index of the file, also MPIB_HINT_MAX_ENTRIES or more. The
 * caller must have checked that the file is long enough. */
static inline struct mpib_hint_entry *mpib_hint_at(const void *shm,
						   uint32_t slot)
{
	return (struct mpib_hint_entry *)((uintptr_t)shm +
					  mpib_hint_bytes(slot));
}

/* Set the hint of an entry. Wait-free. Only one thread of the agent may call
 * this. */
static inline void mpib_hint_write(struct mpib_hint_entry *e, uint32_t sup_bw)
{
	/* If an earlier agent died during a write, `seq` is already odd. So set
	 * the lowest bit instead of adding 1. */
	uint32_t odd = __atomic_load_n(&e->seq, __ATOMIC_RELAXED) | 1;

	__atomic_store_n(&e->seq, odd, __ATOMIC_RELAXED);
	/* Release pairs with the acquire of `sup_bw` in mpib_hint_read(): a
	 * reader that sees this value also sees the odd `seq`, or a later
	 * one. */
	__atomic_store_n(&e->sup_bw, sup_bw, __ATOMIC_RELEASE);
	/* Release pairs with the first acquire of `seq` in mpib_hint_read(). */
	__atomic_store_n(&e->seq, odd + 1, __ATOMIC_RELEASE);
}

/* Return the hint of an entry. If the agent was writing the entry at each of
 * MPIB_HINT_TRIES tries, return `last`. Wait-free. Any thread. */
static inline uint32_t mpib_hint_read(const struct mpib_hint_entry *e,
				      uint32_t last)
{
	for (int i = 0; i < MPIB_HINT_TRIES; i++) {
		/* Acquire pairs with the last release in mpib_hint_write(). */
		uint32_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE);
		/* Acquire pairs with the release of `sup_bw` in
		 * mpib_hint_write(). This acquire also orders the second load
		 * of `seq` after the load of `sup_bw`. */
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
