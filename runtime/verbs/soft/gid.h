/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GIDs of a software device, which stand for its IPv4 address: as on RoCE, one
 * with the address itself, and a link-local one made from a MAC address, here
 * 02:00:a:b:c:d of a.b.c.d.
 */
#ifndef MPIB_VERBS_SOFT_GID_H
#define MPIB_VERBS_SOFT_GID_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

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

/* The address that gid stands for; false: it is no GID of a software device. */
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
