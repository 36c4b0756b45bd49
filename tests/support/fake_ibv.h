/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs' control verbs with devices of the test's making, for programs
 * that link fake_ibv.c: its definitions come before the library's. What a
 * device carries goes by the software HCA, so whole lanes run over it; what it
 * says of itself (ports, GIDs, link layer, ECE, limits) is what the test wrote
 * into fake_ibv, and any call can be made to fail.
 */
#ifndef MPIB_FAKE_IBV_H
#define MPIB_FAKE_IBV_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FAKE_DEVICES 4
#define FAKE_PORTS 2
#define FAKE_GIDS 8

struct fake_port {
	struct ibv_port_attr attr; /* gid_tbl_len is filled in */
	unsigned gids;
	struct ibv_gid_entry gid[FAKE_GIDS];
};

struct fake_device {
	struct ibv_device ibv; /* name, transport, sysfs path */
	const char *soft; /* IPv4 address of the software HCA beneath */
	struct ibv_device_attr attr;
	struct fake_port port[FAKE_PORTS];
};

struct fake_ibv {
	unsigned devices;
	struct fake_device device[FAKE_DEVICES];
	/* The named call fails with error, as often as times says. */
	const char *fail;
	int error;
	unsigned times;
	uint32_t max_inline;
	bool ece; /* the devices have ECE options 0x3 of vendor 0x15b3 */
	/* What was asked for last. */
	int access;
	struct ibv_qp_attr init, rtr, rts;
	struct ibv_ece set; /* by ibv_set_ece() */
	unsigned ece_sets;
};

extern struct fake_ibv fake_ibv;

/* No devices, nothing fails. Between tests, with every context closed. */
void fake_ibv_reset(void);
/* One more device, one port: ACTIVE, RoCE, 4X EDR (100 Gb/s), MTU 4096, with
 * the RoCE v2 GID of its address at index 1. */
struct fake_device *fake_ibv_add(const char *name, const char *soft);
/* As InfiniBand has it: LID and one IB GID. */
void fake_ibv_make_ib(struct fake_device *d, uint16_t lid);
/* Append to the port's table. addr: IPv4 or IPv6. */
void fake_ibv_add_gid(struct fake_device *d, unsigned port, const char *addr,
		      enum ibv_gid_type type);

#endif
