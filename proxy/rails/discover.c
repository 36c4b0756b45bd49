/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing HCAs among the RDMA ports of this machine. */
#include "rails/discover.h"

#include <stdio.h>
#include <stdlib.h>

#include "rails/gpus.h"
#include "rails/numa.h"

/* Move the ports that the filter allows to the front. Returns their number. */
static unsigned discover_sift(struct mpib_rdma_port *port, unsigned n,
			      const struct mpib_hca_filter *filter)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (mpib_hca_filter_allows(filter, port[i].name, port[i].port))
			port[left++] = port[i];
	}
	return left;
}

static void tell_left_out(const struct mpib_rdma_port *port,
			  const char *const *why, unsigned n, char *note,
			  size_t len)
{
	size_t at = 0;

	for (unsigned i = 0; i < n && at < len; i++) {
		if (why[i])
			at += (size_t)snprintf(note + at, len - at,
					       "%s%s:%u %s", at ? ", " : "",
					       port[i].name, port[i].port,
					       why[i]);
	}
}

static void discover_choose(const struct mpib_rdma_port *port, unsigned n,
			    struct mpib_found *found, char *note, size_t len)
{
	const char **why = calloc(n, sizeof(*why));
	bool *near = calloc(n, sizeof(*near));
	struct mpib_gpus gpus;
	struct mpib_hcas hcas;

	snprintf(note, len, "out of memory");
	if (!why || !near)
		goto out_free;
	snprintf(note, len, "every port was taken");
	mpib_gpus_find(&gpus, "/sys");
	for (unsigned i = 0; i < n; i++)
		near[i] = mpib_gpus_near(&gpus, port[i].info.pci_path);
	mpib_hcas_choose(port, near, n, mpib_numa_distance, &hcas, why);
	mpib_numa_forget();
	tell_left_out(port, why, n, note, len);
	found->n = hcas.n;
	found->fastest = hcas.fastest;
	for (unsigned i = 0; i < hcas.n; i++) {
		const struct mpib_rdma_port *p = &port[hcas.hca[i].port];

		snprintf(found->hca[i].name, sizeof(found->hca[i].name),
			 "rdma:%s:%u", p->name, p->port);
		found->hca[i].neighbour = hcas.hca[i].neighbour;
	}
out_free:
	free(near);
	free(why);
}

unsigned mpib_rails_discover(const struct mpib_hca_filter *filter,
			     struct mpib_found *found, char *note,
			     size_t note_len)
{
	struct mpib_rdma_port *port = NULL;
	int n = mpib_rdma_ports(&port);
	unsigned left;

	found->n = 0;
	snprintf(note, note_len, "there is no RDMA device");
	if (n <= 0)
		return 0;
	left = discover_sift(port, (unsigned)n, filter);
	snprintf(note, note_len, "hca.filter leaves no port");
	if (left)
		discover_choose(port, left, found, note, note_len);
	free(port);
	return found->n;
}
