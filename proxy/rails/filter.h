/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ports discovery may choose, in the syntax of NCCL_IB_HCA:
 *
 *   mlx5            ports of all devices whose names begin with "mlx5"
 *   =mlx5_0         ports of the device with exactly that name
 *   mlx5_0:1,mlx5_1 port 1 of mlx5_0* and all ports of mlx5_1*
 *   ^mlx5_3         all ports but those of mlx5_3*; "^=" excludes exact names
 *   mlx5_0:1:0:2    NCCL 2.30's number of rail and of plane, which say nothing
 *                   here; a port may be empty
 */
#ifndef MPIB_PROXY_RAILS_FILTER_H
#define MPIB_PROXY_RAILS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_HCA_FILTERS 32u

struct mpib_hca_filter {
	bool except, exact;
	unsigned n; /* 0: all */
	struct mpib_hca_filter_port {
		char name[64];
		uint8_t port; /* 0: any */
	} port[MPIB_HCA_FILTERS];
};

/* Parse text; "" allows all ports. 0, or -EINVAL with why, part of a sentence
 * that says what is wrong and how to mend it. */
int mpib_hca_filter_parse(struct mpib_hca_filter *f, const char *text,
			  char *why, size_t why_len);
bool mpib_hca_filter_allows(const struct mpib_hca_filter *f, const char *name,
			    uint8_t port);

#endif
