/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing HCAs among RDMA ports: each step leaves ports out, with a reason. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rails/discover.h"

#define SAME_NODE 10u

struct hcas {
	const struct mpib_rdma_port *port;
	const bool *near;
	unsigned n;
	const char **why; /* NULL: in */
};

static bool hcas_in(const struct hcas *h, unsigned i)
{
	return !h->why[i];
}

static bool hcas_active(const struct hcas *h, unsigned i)
{
	return hcas_in(h, i) && h->port[i].info.state == IBV_PORT_ACTIVE;
}

static uint64_t hcas_speed(const struct hcas *h, unsigned i)
{
	return hcas_active(h, i) ? h->port[i].info.speed_mbps : 0;
}

static void leave_faulty(const struct hcas *h)
{
	for (unsigned i = 0; i < h->n; i++) {
		const struct mpib_rdma_port *p = &h->port[i];

		h->why[i] = NULL;
		if (p->error == -EADDRNOTAVAIL)
			h->why[i] = "has no RoCE v2 GID";
		else if (p->error == -ETIMEDOUT)
			h->why[i] = "does not answer (its firmware may hang)";
		else if (p->error)
			h->why[i] = strerror(-p->error);
		else if (p->is_virtual)
			h->why[i] = "has no hardware behind it";
	}
}

static bool same_card(const struct mpib_rdma_port *a,
		      const struct mpib_rdma_port *b)
{
	return !strcmp(a->name, b->name) || (a->card && a->card == b->card);
}

/* Domain, bus, device and function, "0000:41:00.0", in one number; 0: unknown. */
static uint64_t pci_order(const char *path)
{
	static const char ends[] = { ':', ':', '.', '\0' };
	const char *at = strrchr(path, '/');
	uint64_t order = 0;

	if (!at)
		return 0;
	for (unsigned i = 0; i < sizeof(ends); i++) {
		char *end;

		order = order << 8 | strtoul(at + 1, &end, 16);
		if (end == at + 1 || *end != ends[i])
			return 0;
		at = end;
	}
	return order;
}

/* Whether a comes before b. Ports of no known place keep their order. */
static bool hcas_before(const struct hcas *h, unsigned a, unsigned b)
{
	uint64_t x = pci_order(h->port[a].info.pci_path);
	uint64_t y = pci_order(h->port[b].info.pci_path);

	return x != y ? x < y : a < b;
}

/* Whether a stands for the card of both. */
static bool stands_for(const struct hcas *h, unsigned a, unsigned b)
{
	if (hcas_active(h, a) != hcas_active(h, b))
		return hcas_active(h, a);
	if (h->port[a].is_function != h->port[b].is_function)
		return h->port[b].is_function;
	if (hcas_speed(h, a) != hcas_speed(h, b))
		return hcas_speed(h, a) > hcas_speed(h, b);
	return hcas_before(h, a, b);
}

static bool one_card(const struct hcas *h)
{
	const struct mpib_rdma_port *first = NULL;

	for (unsigned i = 0; i < h->n; i++) {
		if (!hcas_in(h, i))
			continue;
		if (first && !same_card(first, &h->port[i]))
			return false;
		first = first ? first : &h->port[i];
	}
	return true;
}

/* Whether an active port of the only card counts beside others of it. A virtual
 * function does not: its bytes leave by a port that is one of these. */
static bool counts_beside(const struct hcas *h, unsigned i)
{
	return hcas_active(h, i) && !h->port[i].is_function;
}

static void leave_ports_of_cards(const struct hcas *h)
{
	bool one = one_card(h);

	for (unsigned i = 0; i < h->n; i++) {
		for (unsigned j = 0; j < h->n && hcas_in(h, i); j++) {
			if (j == i || !hcas_in(h, j) ||
			    !same_card(&h->port[i], &h->port[j]) ||
			    !stands_for(h, j, i) ||
			    (one && counts_beside(h, i)))
				continue;
			h->why[i] = hcas_active(h, i)
					    ? "is of a card that another port "
					      "stands for"
					    : "is not active";
		}
	}
}

/* One that is down may never have had a cable: where others are active it leaves
 * none of them out. */
static void leave_far_from_gpus(const struct hcas *h)
{
	bool any = false, some = false;

	for (unsigned i = 0; i < h->n; i++)
		any |= hcas_active(h, i);
	for (unsigned i = 0; i < h->n; i++)
		some |= h->near[i] && (any ? hcas_active(h, i) : hcas_in(h, i));
	for (unsigned i = 0; some && i < h->n; i++) {
		if (hcas_in(h, i) && !h->near[i])
			h->why[i] = "has no GPU behind its PCI root port, as "
				    "others have";
	}
}

/* The link layer with the most speed in sum; where nothing is active, that of
 * the first. */
static uint8_t best_layer(const struct hcas *h)
{
	uint64_t best = 0;
	uint8_t layer = 0;
	bool any = false;

	for (unsigned i = 0; i < h->n; i++) {
		uint64_t sum = 0;

		if (!hcas_in(h, i))
			continue;
		for (unsigned j = 0; j < h->n; j++)
			sum += h->port[j].info.link_layer ==
					       h->port[i].info.link_layer
				       ? hcas_speed(h, j)
				       : 0;
		if (any && sum <= best)
			continue;
		best = sum;
		layer = h->port[i].info.link_layer;
		any = true;
	}
	return layer;
}

static void leave_other_layers(const struct hcas *h)
{
	uint8_t layer = best_layer(h);

	for (unsigned i = 0; i < h->n; i++) {
		if (hcas_in(h, i) && h->port[i].info.link_layer != layer)
			h->why[i] = "has another link layer";
	}
}

static void leave_slow(const struct hcas *h)
{
	uint64_t fastest = 0;

	for (unsigned i = 0; i < h->n; i++)
		fastest =
			hcas_speed(h, i) > fastest ? hcas_speed(h, i) : fastest;
	for (unsigned i = 0; i < h->n; i++) {
		if (hcas_active(h, i) && hcas_speed(h, i) * 4 < fastest)
			h->why[i] = "is slower than a quarter of the fastest";
	}
}

/* The speed of a port that is down says nothing, and a card of another model
 * may never have had a cable. */
static void leave_spares(const struct hcas *h)
{
	bool any = false;

	for (unsigned i = 0; i < h->n; i++)
		any |= hcas_active(h, i);
	for (unsigned i = 0; any && i < h->n; i++) {
		bool kin = hcas_active(h, i) || !hcas_in(h, i);

		for (unsigned j = 0; !kin && j < h->n; j++)
			kin = hcas_active(h, j) &&
			      h->port[j].model == h->port[i].model;
		if (!kin)
			h->why[i] = "is not active";
	}
}

/* By insertion: there are few. */
static void hcas_put(const struct hcas *h, struct mpib_hcas *out)
{
	out->n = 0;
	for (unsigned i = 0; i < h->n; i++) {
		unsigned at = out->n;

		if (!hcas_in(h, i))
			continue;
		while (at > 0 && hcas_before(h, i, out->hca[at - 1].port))
			at--;
		if (at == MPIB_HCAS_MAX) {
			h->why[i] = "comes behind 16 others";
			continue;
		}
		if (out->n == MPIB_HCAS_MAX)
			h->why[out->hca[--out->n].port] =
				"comes behind 16 others";
		memmove(&out->hca[at + 1], &out->hca[at],
			(out->n - at) * sizeof(out->hca[0]));
		out->hca[at].port = i;
		out->n++;
	}
}

static unsigned hcas_distance(const struct hcas *h, const struct mpib_hcas *out,
			      unsigned a, unsigned b, mpib_numa_fn *distance)
{
	return distance(h->port[out->hca[a].port].info.numa_node,
			h->port[out->hca[b].port].info.numa_node);
}

/* The nearest HCA but those at most `most` away; `paired`: bit per HCA that is
 * none of them. Its own number: there is none. */
static unsigned hcas_nearest(const struct hcas *h, const struct mpib_hcas *out,
			     unsigned a, uint32_t paired, unsigned most,
			     mpib_numa_fn *distance)
{
	unsigned best = a;

	for (unsigned b = 0; b < out->n; b++) {
		unsigned far = hcas_distance(h, out, a, b, distance);

		if (b == a || paired >> b & 1 || far > most)
			continue;
		if (best == a || far < hcas_distance(h, out, a, best, distance))
			best = b;
	}
	return best;
}

/* First pairs on one NUMA node, then what is left; an odd one takes the nearest
 * of all. */
static void hcas_pair(const struct hcas *h, struct mpib_hcas *out,
		      mpib_numa_fn *distance)
{
	static const unsigned most[] = { SAME_NODE, UINT32_MAX };
	uint32_t paired = 0;

	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned a = 0; a < out->n; a++) {
			unsigned b =
				paired >> a & 1
					? a
					: hcas_nearest(h, out, a, paired,
						       most[pass], distance);

			if (b == a)
				continue;
			out->hca[a].neighbour = b;
			out->hca[b].neighbour = a;
			paired |= 1u << a | 1u << b;
		}
	}
	for (unsigned a = 0; a < out->n; a++) {
		if (!(paired >> a & 1))
			out->hca[a].neighbour = hcas_nearest(
				h, out, a, 0, UINT32_MAX, distance);
	}
}

void mpib_hcas_choose(const struct mpib_rdma_port *port, const bool *near,
		      unsigned n, mpib_numa_fn *distance, struct mpib_hcas *out,
		      const char **why)
{
	const struct hcas h = { port, near, n, why };

	leave_faulty(&h);
	leave_far_from_gpus(&h);
	leave_other_layers(&h);
	leave_slow(&h);
	leave_spares(&h);
	leave_ports_of_cards(&h);
	hcas_put(&h, out);
	hcas_pair(&h, out, distance);
	out->fastest = 0;
	for (unsigned i = 1; i < out->n; i++) {
		if (hcas_speed(&h, out->hca[i].port) >
		    hcas_speed(&h, out->hca[out->fastest].port))
			out->fastest = i;
	}
}
