/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices beyond the verbs table: discovery of their ports, and the
 * preferred networks for the choice of a port's GID.
 */
#ifndef MPIB_VERBS_RDMA_H
#define MPIB_VERBS_RDMA_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/verbs.h"

/* Set the networks whose addresses RoCE ports prefer, as text for
 * mpib_networks_parse(), whose result is returned; "" for no preference. The
 * setting applies to the whole process; the control thread makes it before the
 * first open. */
int mpib_rdma_prefer_nets(const char *text, char *why, size_t why_len);

struct mpib_rdma_port {
	char name[64];
	uint8_t port;
	bool is_virtual; /* without hardware, as soft-RoCE */
	/* Virtual or scalable function, which shares its port. */
	bool is_function;
	int error; /* -errno: the port cannot be used, and info is not set */
	/* Equal for all ports and functions of a card; 0: unknown. */
	uint64_t card;
	uint32_t model; /* vendor_part_id */
	struct mpib_port_info info;
};

/* Find the ports of all RDMA devices that have RC with WRITE_WITH_IMM. Return
 * how many, or -errno (-ENOSYS: the kernel has no RDMA); the caller frees *port
 * if there are any. Opens each device briefly; a device that does not answer
 * has one port, whose error reports this. Control thread. */
int mpib_rdma_ports(struct mpib_rdma_port **port);

/* Fill in the device's place: numa_node and pci_path of info, -1 and empty if
 * unknown. Queries only the kernel, not the device. Any thread. */
void mpib_rdma_place(const struct mpib_rail_spec *spec,
		     struct mpib_port_info *info);

/* Write the names of this machine's RDMA devices ("mlx5_0, mlx5_1") to buf, or
 * the reason why they cannot be listed. Any thread. */
void mpib_rdma_device_names(char *buf, size_t len);

/* The parts of the provider on libibverbs that hca/ runs on a thread for each
 * HCA. Only these two folders call libibverbs' control verbs, which report
 * failures by NULL and errno, by -1 and errno, or by a positive errno. The
 * functions here return -errno, by the rules of struct mpib_verbs. */

/* Return -errno of a failed call that may not have set errno. Set errno to 0
 * before the call; if it is still 0, the result is -EIO. */
static inline int mpib_rdma_err(void)
{
	return errno ? -errno : -EIO;
}

int mpib_rdma_open(const struct mpib_rail_spec *spec, struct ibv_context **ctx);
int mpib_rdma_close(struct ibv_context *ctx);

/* List the devices that have RC with WRITE_WITH_IMM. Return how many, or
 * -errno; the caller frees *spec if there are any. */
int mpib_rdma_list(struct mpib_rail_spec **spec);
/* Query the ports of one device, at most max and at least one. Opens the device
 * briefly. Return how many. */
unsigned mpib_rdma_ask(const struct mpib_rail_spec *spec,
		       struct mpib_rdma_port *port, unsigned max);
int mpib_rdma_query_port(struct ibv_context *ctx, uint8_t port,
			 struct mpib_port_info *info);

#endif
