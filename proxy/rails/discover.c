/* SPDX-License-Identifier: Apache-2.0 */
/* Choose HCAs among the RDMA ports of this machine. */
#include "rails/discover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <hwloc/glibc-sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rails/gpus.h"

/* Move ports that the filter allows to the front. Returns their number. */
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
	snprintf(note, len, "every port was chosen");
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

/* Choose HCAs among RDMA ports: each step excludes ports, with a reason. */

#define SAME_NODE 10u

struct hcas {
	const struct mpib_rdma_port *port;
	const bool *near;
	unsigned n;
	const char **why; /* NULL: not excluded */
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

/* Return domain, bus, device and function, such as "0000:41:00.0", as one
 * number; 0: unknown. */
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

/* Return whether port a precedes port b in PCI order. Ports without a known PCI
 * address keep their order. */
static bool hcas_before(const struct hcas *h, unsigned a, unsigned b)
{
	uint64_t x = pci_order(h->port[a].info.pci_path);
	uint64_t y = pci_order(h->port[b].info.pci_path);

	return x != y ? x < y : a < b;
}

/* Ports a and b are on the same card. Return whether a, and not b, represents
 * the card. */
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

/* Return whether port i of the only card counts as an HCA. Active ports count,
 * but a virtual function does not, because it sends through one of these
 * ports. */
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
					    ? "is on a card that another port "
					      "represents"
					    : "is not active";
		}
	}
}

/* If an active port has a GPU near it, exclude all ports without a GPU near
 * them. A port that is down does not trigger this, because it may never have
 * had a cable. If no port is active, any port with a GPU near it is enough. */
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

/* Return the link layer whose ports have the highest total speed. If no port is
 * active, return the link layer of the first port. */
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

/* Exclude ports that are down, unless an active card is of the same model. A
 * card of another model may never have had a cable. The speed of a port without
 * a cable is meaningless. */
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

/* Insert the HCAs in PCI order. A linear search is good enough for so few. */
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
			h->why[i] = "comes after 16 others";
			continue;
		}
		if (out->n == MPIB_HCAS_MAX)
			h->why[out->hca[--out->n].port] =
				"comes after 16 others";
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

/* Among the HCAs that are not in the mask `paired`, return the one that is
 * nearest to a, at a distance of at most `most`. If there is none, return a. */
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

/* Pair HCAs of one NUMA node first, then the others. If one HCA is left over,
 * its neighbour is the nearest of all HCAs. */
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

/* Parse hca.filter, and match ports against it. */

/* Parse the number after the colon at *text and move *text past the number.
 * Return -1 if there is no number, or -2 if it is not in 0 to 32767. */
static int filter_number(const char **text, const char *end)
{
	int n = -1;

	if (*text == end)
		return -1;
	while (++*text < end && **text != ':') {
		if (**text < '0' || **text > '9')
			return -2;
		n = (n < 0 ? 0 : n * 10) + (**text - '0');
		if (n > INT16_MAX)
			return -2;
	}
	return n;
}

/* Parse one NAME[:[PORT][:[RAIL][:[PLANE]]]] of `len` characters. */
static bool filter_parse_one(struct mpib_hca_filter_port *p, const char *text,
			     size_t len)
{
	const char *end = text + len, *colon = memchr(text, ':', len);
	const char *at = colon ? colon : end;
	size_t name = (size_t)(at - text);
	int port;

	if (name == 0 || name >= sizeof(p->name))
		return false;
	port = filter_number(&at, end);
	if (port < -1 || port == 0 || port > UINT8_MAX ||
	    (colon && port < 0 && at == end))
		return false;
	for (int i = 0; i < 2; i++) { /* rail, plane */
		if (filter_number(&at, end) < -1)
			return false;
	}
	if (at < end)
		return false;
	memcpy(p->name, text, name);
	p->name[name] = '\0';
	p->port = port > 0 ? (uint8_t)port : 0;
	return true;
}

int mpib_hca_filter_parse(struct mpib_hca_filter *f, const char *text,
			  char *why, size_t why_len)
{
	*f = (struct mpib_hca_filter){ 0 };
	if (!*text)
		return 0;
	f->except = *text == '^';
	text += f->except;
	f->exact = *text == '=';
	text += f->exact;
	for (;;) {
		size_t len = strcspn(text, ",");

		if (f->n == MPIB_HCA_FILTERS) {
			snprintf(why, why_len,
				 "it has too many devices (give at most %u)",
				 MPIB_HCA_FILTERS);
			return -EINVAL;
		}
		if (!filter_parse_one(&f->port[f->n++], text, len)) {
			snprintf(why, why_len,
				 "\"%.*s\" is not a device (give NAME or "
				 "NAME:PORT, with ^ or = before the first "
				 "alone)",
				 (int)(len < 64 ? len : 64), text);
			return -EINVAL;
		}
		text += len;
		if (!*text)
			return 0;
		text++;
	}
}

static bool filter_names(const struct mpib_hca_filter *f, const char *name,
			 uint8_t port)
{
	for (unsigned i = 0; i < f->n; i++) {
		const struct mpib_hca_filter_port *p = &f->port[i];

		if (p->port && p->port != port)
			continue;
		if (f->exact ? !strcmp(name, p->name)
			     : !strncmp(name, p->name, strlen(p->name)))
			return true;
	}
	return false;
}

bool mpib_hca_filter_allows(const struct mpib_hca_filter *f, const char *name,
			    uint8_t port)
{
	return f->n == 0 || filter_names(f, name, port) != f->except;
}

/* The distance of two NUMA nodes, from hwloc. */

#define SAME 10
#define OTHER 20 /* two nodes whose distance is unknown */

static int index_of(const struct hwloc_distances_s *d, int node)
{
	for (unsigned i = 0; i < d->nbobjs; i++) {
		if (d->objs[i] && d->objs[i]->os_index == (unsigned)node)
			return (int)i;
	}
	return -1;
}

static unsigned numa_ask(hwloc_topology_t topology, int a, int b)
{
	struct hwloc_distances_s *d = NULL;
	unsigned nr = 1, found = OTHER;
	int i, j;

	if (hwloc_distances_get_by_name(topology, "NUMALatency", &nr, &d, 0) <
		    0 ||
	    nr == 0 || !d)
		return OTHER;
	i = index_of(d, a);
	j = index_of(d, b);
	if (i >= 0 && j >= 0)
		found = (unsigned)d
				->values[(unsigned)i * d->nbobjs + (unsigned)j];
	hwloc_distances_release(topology, d);
	return found;
}

/* hwloc's topology of this machine, loaded by the first call of numa_load(). At
 * start-up there is only one thread. */
static hwloc_topology_t machine;

static bool numa_load(void)
{
	if (machine)
		return true;
	if (hwloc_topology_init(&machine) < 0) {
		machine = NULL;
		return false;
	}
	if (hwloc_topology_load(machine) == 0)
		return true;
	mpib_numa_forget();
	return false;
}

unsigned mpib_numa_distance(int a, int b)
{
	if (a == b || a < 0 || b < 0)
		return SAME;
	return numa_load() ? numa_ask(machine, a, b) : OTHER;
}

bool mpib_numa_cpus(int node, cpu_set_t *cpus)
{
	hwloc_obj_t at;
	cpu_set_t own;

	if (node < 0 || !numa_load() ||
	    hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_NUMANODE) < 2)
		return false;
	at = hwloc_get_numanode_obj_by_os_index(machine, (unsigned)node);
	if (!at ||
	    hwloc_cpuset_to_glibc_sched_affinity(machine, at->cpuset, cpus,
						 sizeof(*cpus)) < 0 ||
	    sched_getaffinity(0, sizeof(own), &own) < 0)
		return false;
	CPU_AND(cpus, cpus, &own);
	return CPU_COUNT(cpus) > 0;
}

void mpib_numa_forget(void)
{
	if (machine)
		hwloc_topology_destroy(machine);
	machine = NULL;
}

/* The log line about each rail's port. */

static const char *gid_kind(uint8_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V2:
		return " (RoCE v2)";
	case IBV_GID_TYPE_ROCE_V1:
		return " (RoCE v1)";
	default:
		return "";
	}
}

void mpib_rail_describe(const char *label, const char *name,
			const struct mpib_port_info *port, char *buf,
			size_t len)
{
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
	char gid[INET6_ADDRSTRLEN], lid[16] = "", numa[24] = "";

	inet_ntop(AF_INET6, port->gid.raw, gid, sizeof(gid));
	if (!ethernet)
		snprintf(lid, sizeof(lid), " LID %u,", port->lid);
	if (port->numa_node >= 0)
		snprintf(numa, sizeof(numa), ", NUMA node %d", port->numa_node);
	snprintf(buf, len,
		 "rail %s %s: %s, %s, %.4g Gb/s, MTU %u,%s GID %u %s%s%s",
		 label, name,
		 ibv_port_state_str((enum ibv_port_state)port->state),
		 ethernet ? "Ethernet" : "InfiniBand",
		 (double)port->speed_mbps / 1000, 128u << port->mtu, lid,
		 port->gid_index, gid, gid_kind(port->gid_type), numa);
}
