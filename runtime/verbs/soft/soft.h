/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the software HCA that are not in the verbs table: its I/O
 * engine, threaded mode, and injected faults that simulate a failing
 * network. */
#ifndef MPIB_VERBS_SOFT_H
#define MPIB_VERBS_SOFT_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Return "io_uring" or "epoll". MPIB_SOFT_ENGINE chooses the engine. The
 * default is io_uring, unless the kernel refuses it or the context has a
 * thread. */
const char *mpib_soft_engine_name(struct ibv_context *ctx);

/* Return the speed of a rail at `addr`: the speed of its interface according to
 * `sysfs` ("/sys"), or a typical speed. Any thread. */
uint64_t mpib_soft_speed_mbps(struct in_addr addr, const char *sysfs);

/* Like mpib_verbs_soft.open(), but the context gets a thread that makes
 * progress, so that peers can write to a process that only polls its memory.
 * Data verbs may then be called from any thread and take the context's lock.
 * Close the context like any other. Any thread. */
struct mpib_rail_spec;
int mpib_soft_open_threaded(const struct mpib_rail_spec *spec,
			    struct ibv_context **out);

/*
 * Close a context that still has objects, as the kernel does when a process
 * ends. The QPs leave their connections, and the memory of the objects leaks.
 * The objects must not be used any more. Any thread.
 */
void mpib_soft_abandon(struct ibv_context *ctx);

/* Every QP and CQ of the software HCA begins with one of these structures. The
 * structures reserve space for ibv_qp_ex and ibv_cq_ex, which softverbs uses.
 * The HCA itself only zeroes this space. */
struct sv_builder;
struct sv_reader;
struct mpib_soft_qp_ex {
	struct ibv_qp_ex ex;
	struct sv_builder *builder;
};

struct mpib_soft_cq_ex {
	struct ibv_cq_ex ex;
	struct sv_reader *reader;
};

/* Return how many requests ibv_post_send() accepts now. Any thread in threaded
 * mode. */
unsigned mpib_soft_send_room(struct ibv_qp *qp);

/* The limits of a device. The environment variable MPIB_SOFT_LIMITS lowers the
 * limits of a context that is being opened, to simulate a smaller device. The
 * variable is a list of NAME=VALUE or ADDRESS/NAME=VALUE, separated by commas.
 * NAME is a field of struct ibv_device_attr, or max_msg_sz or
 * max_inline_data. */
struct mpib_soft_limits {
	struct ibv_device_attr dev; /* the GUIDs are 0 */
	uint32_t max_msg_sz; /* of struct ibv_port_attr */
	uint32_t max_inline_data; /* of struct ibv_qp_cap */
};
/* Return the limits of a context. Any thread. */
const struct mpib_soft_limits *mpib_soft_limits(struct ibv_context *ctx);

/*
 * All injected faults of one context's port. Any thread may change the faults
 * at any time. If all fields are 0, the port is healthy. Random faults are
 * drawn from `seed`, so that a run can be repeated.
 */
struct mpib_soft_fault {
	uint64_t seed;
	/* set: PORT_ERR, and no data passes; cleared: PORT_ACTIVE */
	uint8_t link_down;
	uint8_t black_hole; /* no data passes, but the link is up; no event */
	/* each outgoing message is delayed for a random number of turns, at
	 * most this many */
	uint32_t delay_turns;
	uint64_t delay_ns; /* each outgoing message is delayed for this time */
	uint64_t rate_bytes_per_s; /* 0: unlimited */
	/* the device is lost: DEVICE_FATAL is the last event, see fault.c;
	 * clearing `gone` has no effect */
	uint8_t gone;
};

int mpib_soft_set_fault(struct ibv_context *ctx,
			const struct mpib_soft_fault *fault);

/* GIDs of a software device, derived from its IPv4 address a.b.c.d. As on RoCE,
 * one GID contains the address itself. The other GID is link-local and derived
 * from a MAC address, 02:00:a:b:c:d. */

static inline union ibv_gid soft_gid_mapped(struct in_addr addr)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	memcpy(&gid.raw[12], &addr, 4);
	return gid;
}

static inline union ibv_gid soft_gid_link_local(struct in_addr addr)
{
	union ibv_gid gid = { .raw = { 0xfe, 0x80, [11] = 0xff, [12] = 0xfe } };
	const unsigned char *ip = (const unsigned char *)&addr;

	gid.raw[10] = ip[0];
	memcpy(&gid.raw[13], &ip[1], 3);
	return gid;
}

/* Set *addr to the address in gid. Return false if gid is not a GID of a
 * software device. */
static inline bool soft_gid_addr(const union ibv_gid *gid, struct in_addr *addr)
{
	union ibv_gid made;

	memcpy(addr, &gid->raw[12], 4);
	made = soft_gid_mapped(*addr);
	if (!memcmp(gid->raw, made.raw, sizeof(made.raw)))
		return true;
	memcpy((unsigned char *)addr, &gid->raw[10], 1);
	memcpy((unsigned char *)addr + 1, &gid->raw[13], 3);
	made = soft_gid_link_local(*addr);
	return !memcmp(gid->raw, made.raw, sizeof(made.raw));
}

#endif
