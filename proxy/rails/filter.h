/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ports may be looked at for rails, in the words of NCCL_IB_HCA:
 *
 *   mlx5            ports of devices whose names begin so
 *   =mlx5_0         of that very device
 *   mlx5_0:1,mlx5_1 one port of one device, all of the other
 *   ^mlx5_3         all but these; ^= all but the very ones
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

/* "" allows all. -EINVAL with why, a sentence fragment that names what is wrong
 * and what would be right. Pure, as the other. */
int mpib_hca_filter_parse(struct mpib_hca_filter *f, const char *text,
			  char *why, size_t why_len);
bool mpib_hca_filter_allows(const struct mpib_hca_filter *f, const char *name,
			    uint8_t port);

#endif
