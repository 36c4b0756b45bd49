/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices, beyond the verbs table: discovery of their ports, and the
 * networks preferred when a port's GID is chosen.
 */
#ifndef MPIB_VERBS_RDMA_H
#define MPIB_VERBS_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/verbs.h"

/*
 * Set the networks whose addresses RoCE ports prefer: text is for example
 * "10.1.0.0/16,10.2.0.0/16", at most MPIB_RDMA_NETS, or "" for no preference.
 * -EINVAL with a reason in why. The setting is the process's; the control
 * thread makes it before the first open.
 */
#define MPIB_RDMA_NETS 8u
int mpib_rdma_prefer_nets(const char *text, char *why, size_t why_len);

struct mpib_rdma_port {
	char name[64];
	uint8_t port;
	bool is_virtual; /* no hardware below, as with soft-RoCE */
	bool is_function; /* virtual or scalable, its port is another's */
	int error; /* -errno: the port cannot be used, and info is void */
	/* The same for all ports and functions of a card; 0: unknown. */
	uint64_t card;
	uint32_t model; /* vendor_part_id */
	struct mpib_port_info info;
};

/* Find the ports of all RDMA devices that have RC with WRITE_WITH_IMM. Returns how
 * many, or -errno (-ENOSYS: the kernel has no RDMA); the caller frees *port if there
 * are some. Opens each device for a moment; one that does not answer has one port,
 * with an error that says so. Control thread. */
int mpib_rdma_ports(struct mpib_rdma_port **port);

/* What the kernel says of where a device is, which needs no answer of the device:
 * info's numa_node and pci_path, -1 and empty if nothing. Any thread. */
void mpib_rdma_place(const struct mpib_rail_spec *spec,
		     struct mpib_port_info *info);

/* Write to buf the names of this machine's RDMA devices, "mlx5_0, mlx5_1", or
 * why they cannot be listed. Any thread. */
void mpib_rdma_device_names(char *buf, size_t len);

#endif
