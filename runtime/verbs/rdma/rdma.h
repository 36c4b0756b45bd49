/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for RDMA devices that are not in the verbs table: discovery of
 * ports, and the preferred networks for the choice of a port's GID.
 */
#ifndef MPIB_VERBS_RDMA_H
#define MPIB_VERBS_RDMA_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/verbs.h"

/* Set the networks whose addresses RoCE ports prefer, as text for
 * mpib_networks_parse(); "": no preference. Returns the result of
 * mpib_networks_parse(). The setting applies to the whole process. The control
 * thread must call this before the first open. */
int mpib_rdma_prefer_nets(const char *text, char *why, size_t why_len);

struct mpib_rdma_port {
	char name[64];
	uint8_t port;
	bool is_virtual; /* it has no hardware, like soft-RoCE */
	/* A virtual or scalable function: other functions use the same port. */
	bool is_function;
	int error; /* -errno: the port cannot be used, and `info` is not set */
	/* All ports and functions of a card have the same value; 0: unknown. */
	uint64_t card;
	uint32_t model; /* vendor_part_id */
	struct mpib_port_info info;
};

/* Find the ports of all RDMA devices that have RC with WRITE_WITH_IMM. Return
 * their number, or -errno (-ENOSYS: the kernel has no RDMA). If the result is
 * above 0, the caller frees *port. Opens each device briefly. A device that
 * does not answer is listed with one port, whose `error` is set. Control
 * thread. */
int mpib_rdma_ports(struct mpib_rdma_port **port);

/* Fill in the device's location: numa_node and pci_path of info, or -1 and ""
 * if unknown. Queries only the kernel, not the device. Any thread. */
void mpib_rdma_place(const struct mpib_rail_spec *spec,
		     struct mpib_port_info *info);

/* Write the names of this machine's RDMA devices ("mlx5_0, mlx5_1") to buf, or
 * the reason why they cannot be listed. Any thread. */
void mpib_rdma_device_names(char *buf, size_t len);

/* The calls to libibverbs that hca/ makes on a thread for each HCA. Only rdma/
 * and hca/ call libibverbs' control verbs. The verbs of libibverbs report
 * failures by NULL and errno, by -1 and errno, or by a positive errno. The
 * functions below return -errno, by the rules of struct mpib_verbs. */

/* Return -errno after a failed call, or -EIO if the call did not set errno. The
 * caller must set errno to 0 before the call. */
static inline int mpib_rdma_err(void)
{
	return errno ? -errno : -EIO;
}

int mpib_rdma_open(const struct mpib_rail_spec *spec, struct ibv_context **ctx);
int mpib_rdma_close(struct ibv_context *ctx);

/* List the devices that have RC with WRITE_WITH_IMM. Return their number, or
 * -errno. The caller sets *spec to NULL before the call, and always frees *spec
 * afterwards. */
int mpib_rdma_list(struct mpib_rail_spec **spec);
/* Query at most `max` ports of one device. Opens the device briefly. Return the
 * number of entries, at least 1. */
unsigned mpib_rdma_ask(const struct mpib_rail_spec *spec,
		       struct mpib_rdma_port *port, unsigned max);
int mpib_rdma_query_port(struct ibv_context *ctx, uint8_t port,
			 struct mpib_port_info *info);

#endif
