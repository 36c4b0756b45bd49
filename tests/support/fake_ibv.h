/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replacement for the control verbs of libibverbs, with devices that a test
 * defines. In a program that links fake_ibv.c, these functions replace those of
 * the library. A fake device reports the ports, GIDs, link layer, ECE and
 * limits that the test wrote into fake_ibv. The software HCA carries the
 * traffic of the fake devices, so lanes can run over them. The test can make
 * any call fail.
 */
#ifndef MPIB_FAKE_IBV_H
#define MPIB_FAKE_IBV_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FAKE_DEVICES 300
#define FAKE_PORTS 2
#define FAKE_GIDS 8
/* Value of mpib_hca_wait_ms in tests in which no call hangs, in
 * milliseconds. */
#define FAKE_IBV_PATIENCE_MS 600000

struct fake_port {
	struct ibv_port_attr attr; /* gid_tbl_len 0 means FAKE_GIDS */
	unsigned gids;
	struct ibv_gid_entry gid[FAKE_GIDS];
};

struct fake_device {
	struct ibv_device ibv; /* name, transport, sysfs path */
	/* IPv4 address of the software HCA that carries the device's traffic */
	const char *soft;
	struct ibv_device_attr attr;
	struct fake_port port[FAKE_PORTS];
};

struct fake_ibv {
	unsigned devices;
	struct fake_device device[FAKE_DEVICES];
	/* The call that fails, set by fake_ibv_fails(). */
	const char *fail;
	int error;
	unsigned times;
	uint32_t max_inline;
	bool ece; /* the devices have ECE options 0x3 of vendor 0x15b3 */
	/* The arguments of the last calls. */
	int access;
	uint32_t vectors; /* mask of the completion vectors that CQs use */
	struct ibv_qp_attr init, rtr, rts;
	struct ibv_ece set; /* argument of the last ibv_set_ece() */
	unsigned ece_sets;
};

extern struct fake_ibv fake_ibv;

/* Remove all devices and failures. All contexts must already be closed. */
void fake_ibv_reset(void);
/* Let the next `times` calls of the function `call` fail with `error`. */
void fake_ibv_fails(const char *call, int error, unsigned times);
/* Add a device with one port. The port is ACTIVE, RoCE, 4X EDR (100 Gb/s) and
 * has MTU 4096. GID index 1 is the RoCE v2 GID of the address `soft`. */
struct fake_device *fake_ibv_add(const char *name, const char *soft);
/* Turn `d` into an InfiniBand device with a LID and one IB GID. */
void fake_ibv_make_ib(struct fake_device *d, uint16_t lid);
/* Append a GID to the port's table. `addr` may be IPv4 or IPv6. */
void fake_ibv_add_gid(struct fake_device *d, unsigned port, const char *addr,
		      enum ibv_gid_type type);

/*
 * From now on, a call of the function `call` on the device blocks until
 * fake_ibv_release(). `call` is "ibv_reg_mr", "ibv_dereg_mr", "ibv_create_qp"
 * or "ibv_destroy_qp". "RTR" and "ERR" stand for an ibv_modify_qp() to this
 * state. Any thread may call these two functions.
 */
void fake_ibv_hang(const char *device, const char *call);
void fake_ibv_release(void);
/* fake_ibv_hung() returns how many calls have blocked. fake_ibv_contexts()
 * returns how many contexts are open. */
unsigned fake_ibv_hung(void);
unsigned fake_ibv_contexts(void);
/* Every fake function calls this first. If the test lets the function `name` of
 * device `d` hang, the call blocks. */
void fake_ibv_call(const struct fake_device *d, const char *name);

#endif
