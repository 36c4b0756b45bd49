/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the rails among the RDMA ports of this machine. */
#include "rails/discover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rails/numa.h"

#define PORTS_MAX 64

static bool discover_is_hardware(const struct mpib_rdma_port *p)
{
	return p->error == 0 && !p->is_virtual;
}

static bool discover_usable(const struct mpib_rdma_port *p)
{
	return discover_is_hardware(p) && p->info.state == IBV_PORT_ACTIVE;
}

/* How good a choice of ports is; members are compared in this order. */
struct merit {
	uint64_t speed; /* Mb/s, sum of the rails */
	unsigned devices;
	unsigned nearness;
};

static bool discover_better(const struct merit *a, const struct merit *b)
{
	if (a->speed != b->speed)
		return a->speed > b->speed;
	if (a->devices != b->devices)
		return a->devices > b->devices;
	return a->nearness > b->nearness;
}

static bool discover_fit(const struct mpib_rdma_port *a,
			 const struct mpib_rdma_port *b)
{
	uint64_t x = a->info.speed_mbps, y = b->info.speed_mbps;

	return discover_usable(a) && discover_usable(b) &&
	       a->info.link_layer == b->info.link_layer && x * 4 >= y &&
	       y * 4 >= x;
}

static struct merit of_pair(const struct mpib_rdma_port *a,
			    const struct mpib_rdma_port *b,
			    mpib_numa_fn *distance)
{
	return (struct merit){
		.speed = a->info.speed_mbps + b->info.speed_mbps,
		.devices = strcmp(a->name, b->name) ? 2 : 1,
		.nearness = UINT32_MAX -
			    distance(a->info.numa_node, b->info.numa_node),
	};
}

/* No port of the device is active. The second port of a card whose first one is
 * in use may well have no cable. */
static bool discover_is_away(const struct mpib_rdma_port *port, unsigned n,
			     unsigned i)
{
	for (unsigned j = 0; j < n; j++) {
		if (!strcmp(port[j].name, port[i].name) &&
		    discover_usable(&port[j]))
			return false;
	}
	return discover_is_hardware(&port[i]);
}

/* Fill up with devices that are down, so that a node whose ports come up later
 * has the rails that it has otherwise. The speed of a port that is down says
 * nothing. Returns the number of rails. */
static unsigned discover_fill_up(const struct mpib_rdma_port *port, unsigned n,
				 unsigned most, unsigned rails,
				 unsigned pick[2])
{
	for (unsigned i = 0; rails < most && i < n; i++) {
		const struct mpib_rdma_port *have = &port[pick[0]];

		if (!discover_is_away(port, n, i) ||
		    (rails &&
		     (!strcmp(have->name, port[i].name) ||
		      have->info.link_layer != port[i].info.link_layer)))
			continue;
		pick[rails++] = i;
	}
	if (rails == 2 && pick[0] > pick[1]) {
		unsigned first = pick[1];

		pick[1] = pick[0];
		pick[0] = first;
	}
	return rails;
}

unsigned mpib_rails_choose(const struct mpib_rdma_port *port, unsigned n,
			   unsigned most, mpib_numa_fn *distance,
			   unsigned pick[2])
{
	struct merit best = { 0 }, m;
	unsigned rails = 0;

	for (unsigned i = 0; i < n; i++) {
		m = (struct merit){ .speed = port[i].info.speed_mbps };
		if (discover_usable(&port[i]) &&
		    (!rails || discover_better(&m, &best))) {
			best = m;
			pick[0] = i;
			rails = 1;
		}
	}
	for (unsigned i = 0; most > 1 && i < n; i++) {
		for (unsigned j = i + 1; j < n; j++) {
			if (!discover_fit(&port[i], &port[j]))
				continue;
			m = of_pair(&port[i], &port[j], distance);
			if (!discover_better(&m, &best))
				continue;
			best = m;
			pick[0] = i;
			pick[1] = j;
			rails = 2;
		}
	}
	return discover_fill_up(port, n, most, rails, pick);
}

static const char *discover_fault(const struct mpib_rdma_port *p)
{
	if (p->error == -EADDRNOTAVAIL)
		return "has no RoCE v2 GID";
	if (p->error)
		return strerror(-p->error);
	if (p->is_virtual)
		return "has no hardware behind it";
	return p->info.state == IBV_PORT_ACTIVE ? NULL : "is not active";
}

static void tell_faults(const struct mpib_rdma_port *port, unsigned n,
			char *note, size_t len)
{
	size_t at = 0;

	for (unsigned i = 0; i < n && at < len; i++) {
		const char *why = discover_fault(&port[i]);

		if (why)
			at += (size_t)snprintf(note + at, len - at,
					       "%s%s:%u %s", at ? ", " : "",
					       port[i].name, port[i].port, why);
	}
}

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

unsigned mpib_rails_discover(unsigned most,
			     const struct mpib_hca_filter *filter,
			     char name[2][80], char *note, size_t note_len)
{
	struct mpib_rdma_port port[PORTS_MAX];
	unsigned pick[2] = { 0 }, rails;
	int n = mpib_rdma_ports(port, PORTS_MAX);

	snprintf(note, note_len, "there is no RDMA device");
	if (n <= 0)
		return 0;
	n = (int)discover_sift(port, (unsigned)n, filter);
	snprintf(note, note_len, "hca.filter leaves no port");
	if (n == 0)
		return 0;
	snprintf(note, note_len, "every port was taken");
	tell_faults(port, (unsigned)n, note, note_len);
	rails = mpib_rails_choose(port, (unsigned)n, most, mpib_numa_distance,
				  pick);
	for (unsigned r = 0; r < rails; r++)
		snprintf(name[r], sizeof(name[r]), "rdma:%s:%u",
			 port[pick[r]].name, port[pick[r]].port);
	return rails;
}
