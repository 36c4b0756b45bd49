/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/rails: which ports are used as HCAs, their order and their neighbours.
 * A directory of the test replaces /sys and contains the GPUs. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "rails/discover.h"
#include "rails/gpus.h"
#include "scratch.h"
#include "test.h"

#define IB IBV_LINK_LAYER_INFINIBAND
#define ETH IBV_LINK_LAYER_ETHERNET

static struct mpib_rdma_port port[24];
static bool near[24];
static unsigned ports;
static struct mpib_hcas hcas;
static const char *why[24];

static int none(void **state)
{
	memset(near, 0, sizeof(near));
	ports = 0;
	return scratch_make(state);
}

static struct mpib_rdma_port *add(const char *name, uint8_t number,
				  uint8_t layer, unsigned gbps, int node)
{
	struct mpib_rdma_port *p = &port[ports++];

	*p = (struct mpib_rdma_port){ .port = number,
				      .info = { .speed_mbps = gbps * 1000,
						.link_layer = layer,
						.state = IBV_PORT_ACTIVE,
						.numa_node = node } };
	snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

static struct mpib_rdma_port *add_at(const char *pci, uint64_t card)
{
	struct mpib_rdma_port *p = add(pci, 1, ETH, 400, 0);

	p->card = card;
	snprintf(p->info.pci_path, sizeof(p->info.pci_path), "/sys/.../%s",
		 pci);
	return p;
}

static unsigned by_node(int a, int b)
{
	return a == b ? 10 : a + b == 3 ? 32 : 21;
}

static unsigned choose(void)
{
	mpib_hcas_choose(port, near, ports, by_node, &hcas, why);
	return hcas.n;
}

/* Check that the chosen HCAs are the ports with these indexes. */
static void expect(unsigned n, const unsigned *want)
{
	assert_int_equal(choose(), n);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(hcas.hca[i].port, want[i]);
		assert_null(why[want[i]]);
	}
}
#define EXPECT(...)                                                            \
	expect(sizeof((unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned),         \
	       (unsigned[]){ __VA_ARGS__ })

static void expect_neighbours(const unsigned *want)
{
	for (unsigned i = 0; i < hcas.n; i++)
		assert_int_equal(hcas.hca[i].neighbour, want[i]);
}

#define CASE(name) TEST_OF(name, none, scratch_remove)

CASE(link_layers_are_not_mixed)
{
	add("a", 1, IB, 400, 0);
	add("b", 1, ETH, 400, 0);
	add("c", 1, IB, 200, 0);
	EXPECT(0, 2);
	assert_string_equal(why[1], "has another link layer");
}

CASE(one_fast_port_decides_the_link_layer)
{
	add("a", 1, ETH, 25, 0);
	add("b", 1, ETH, 25, 0);
	add("c", 1, IB, 400, 0);
	EXPECT(2);
}

CASE(a_port_with_a_tenth_of_the_speed_is_not_used)
{
	add("a", 1, ETH, 400, 0);
	add("b", 1, ETH, 25, 0);
	EXPECT(0);
	assert_string_equal(why[1], "is slower than a quarter of the fastest");
	port[1].info.speed_mbps = 100000;
	EXPECT(0, 1);
	assert_int_equal(hcas.fastest, 0);
}

CASE(only_usable_ports_become_hcas)
{
	add("b", 1, ETH, 400, 0)->error = -EADDRNOTAVAIL;
	add("c", 1, ETH, 400, 0)->is_virtual = true;
	assert_int_equal(choose(), 0);
	add("d", 1, ETH, 10, 0);
	EXPECT(2);
	assert_string_equal(why[0], "has no RoCE v2 GID");
}

CASE(functions_and_ports_of_a_card_count_as_one_hca)
{
	add_at("0000:41:00.1", 7);
	add_at("0000:41:00.0", 7);
	add_at("0000:41:01.0", 7);
	add_at("0000:21:00.0", 5)->info.state = IBV_PORT_DOWN;
	add_at("0000:21:00.1", 5);
	EXPECT(4, 1);
	assert_string_equal(why[0],
			    "is on a card that another port represents");
	assert_string_equal(why[3], "is not active");
}

CASE(two_ports_of_the_only_card_count_as_two_hcas)
{
	add("a", 1, ETH, 100, 0);
	add("a", 2, ETH, 100, 0);
	EXPECT(0, 1);
	add("b", 1, ETH, 100, 1);
	EXPECT(0, 2);
	ports = 2;
	port[1].info.state = IBV_PORT_DOWN;
	EXPECT(0);
}

CASE(functions_of_the_only_card_are_not_devices)
{
	for (unsigned i = 0; i < 6; i++) {
		char pci[16];

		snprintf(pci, sizeof(pci), "0000:41:00.%u", i);
		add_at(pci, 7)->is_function = i > 1;
	}
	EXPECT(0, 1);
	assert_string_equal(why[2],
			    "is on a card that another port represents");
	/* Even a faster function does not replace a port of its card. */
	port[2].info.speed_mbps = 800000;
	EXPECT(0, 1);
	/* A container may have access only to functions, not to the card's
	 * ports. */
	port[0].error = port[1].error = -EPERM;
	EXPECT(2);
}

CASE(hcas_are_ordered_by_pci_address)
{
	add_at("0001:05:00.0", 1);
	add_at("0000:e1:00.0", 2);
	add_at("10000:01:00.0", 3);
	add_at("0000:1d:00.0", 4);
	EXPECT(3, 1, 0, 2);
	expect_neighbours((unsigned[]){ 1, 0, 3, 2 });
}

CASE(neighbours_are_on_the_same_node_if_possible)
{
	for (unsigned i = 0; i < 6; i++)
		add((char[]){ (char)('a' + i), 0 }, 1, ETH, 400, i >= 3);
	choose();
	expect_neighbours((unsigned[]){ 1, 0, 5, 4, 3, 2 });
	ports = 3;
	choose();
	expect_neighbours((unsigned[]){ 1, 0, 0 });
	ports = 1;
	choose();
	expect_neighbours((unsigned[]){ 0 });
}

CASE(an_hca_for_storage_is_not_used)
{
	add("a", 1, ETH, 400, 0);
	add("b", 1, ETH, 400, 0);
	add("c", 1, ETH, 400, 0);
	EXPECT(0, 1, 2);
	near[0] = near[2] = true;
	EXPECT(0, 2);
	assert_string_equal(why[1], "has no GPU behind its PCI root port, as "
				    "others have");
}

/* The port near a GPU has no cable. The ports that are not near a GPU work. */
CASE(ports_that_are_down_do_not_make_other_ports_count_as_storage)
{
	add("a", 1, ETH, 400, 0)->model = 4129;
	add("b", 1, ETH, 400, 0)->model = 4129;
	add("c", 1, ETH, 2, 0)->model = 4125;
	near[2] = true;
	port[2].info.state = IBV_PORT_DOWN;
	EXPECT(0, 1);
	assert_string_equal(why[2], "is not active");
	/* Another port of the same model is active, so this port may come up
	 * later. */
	near[1] = true;
	port[2].model = 4129;
	EXPECT(1, 2);
	/* If all ports are down, the ports that are near a GPU are used. */
	port[0].info.state = port[1].info.state = IBV_PORT_DOWN;
	EXPECT(1, 2);
}

CASE(a_port_that_is_down_counts_if_its_model_is_in_use)
{
	add("a", 1, ETH, 400, 0)->model = 4129;
	add("b", 1, ETH, 2, 0)->model = 4129;
	add("c", 1, ETH, 2, 0)->model = 4125;
	port[1].info.state = port[2].info.state = IBV_PORT_DOWN;
	EXPECT(0, 1);
	assert_string_equal(why[2], "is not active");
	/* If all ports are down and no GPU is known, all ports are used. */
	port[0].info.state = IBV_PORT_DOWN;
	EXPECT(0, 1, 2);
}

CASE(the_first_sixteen_hcas_are_used)
{
	for (unsigned i = 0; i < 20; i++) {
		char pci[16];

		snprintf(pci, sizeof(pci), "0000:%02x:00.0", 40 - i);
		add_at(pci, i + 1);
	}
	assert_int_equal(choose(), 16);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(hcas.hca[i].port, 19 - i);
	assert_string_equal(why[0], "comes after 16 others");
	assert_string_equal(why[3], "comes after 16 others");
}

/* Make a PCI device with this class and vendor at `path` in the scratch
 * directory. */
static void put_device(const char *path, const char *class, const char *vendor)
{
	char at[512], text[600];

	snprintf(text, sizeof(text), "%s/class", path);
	scratch_write(text, class);
	snprintf(text, sizeof(text), "%s/vendor", path);
	scratch_write(text, vendor);
	snprintf(at, sizeof(at), "%s", scratch_path(path));
	snprintf(text, sizeof(text), "bus/pci/devices%s", strrchr(path, '/'));
	assert_int_equal(symlink(at, scratch_path(text)), 0);
}

#define ROOT "devices/pci0000:15/0000:15:01.0"
#define OTHER "devices/pci0000:15/0000:15:03.0"

static bool near_gpu(const struct mpib_gpus *g, const char *path)
{
	return mpib_gpus_near(g, scratch_path(path));
}

CASE(a_gpu_is_near_an_hca_below_the_same_root_port)
{
	struct mpib_gpus g;

	scratch_dir("bus/pci/devices");
	put_device(ROOT "/0000:16:00.0/0000:17:00.0/0000:18:00.0", "0x030200\n",
		   "0x10de\n");
	put_device("devices/pci0000:e0/0000:e0:01.0/0000:e1:00.0", "0x120000\n",
		   "0x1002\n");
	/* A console's VGA device, an NVSwitch and an HCA are not GPUs. */
	put_device(OTHER "/0000:1a:00.0", "0x030000\n", "0x1a03\n");
	put_device(OTHER "/0000:1b:00.0", "0x068000\n", "0x10de\n");
	put_device(OTHER "/0000:1c:00.0", "0x020700\n", "0x15b3\n");
	/* In a virtual machine, a GPU has no bridge above it. */
	put_device("devices/pci0001:00/0001:00:00.0", "0x030200\n", "0x10de\n");
	mpib_gpus_find(&g, scratch_path(""));
	assert_int_equal(g.n, 2);
	assert_true(near_gpu(&g, ROOT "/0000:16:00.0/0000:17:04.0/0000:1d:00"
				      ".0"));
	assert_true(near_gpu(&g, "devices/pci0000:e0/0000:e0:01.0/x"));
	assert_false(near_gpu(&g, OTHER "/0000:1c:00.0"));
	assert_false(near_gpu(&g, "devices/pci0001:00/0001:00:00.0"));
	assert_false(mpib_gpus_near(&g, ""));
	assert_false(mpib_gpus_near(&g, "/sys/devices/virtual/pci/x/y"));
}

#define BELOW "/sys/devices/pci0000:15/0000:15:01.0"

TEST(paths_are_named_as_by_nvidia_smi)
{
	static const char gpu[] =
		BELOW "/0000:16:00.0/0000:17:00.0/0000:18:00.0";
	static const struct {
		const char *hca;
		bool same_node;
		const char *way;
	} cases[] = {
		{ BELOW "/0000:16:00.0/0000:17:01.0/0000:19:00.0", true,
		  "PIX" },
		{ BELOW "/0000:16:00.0/0000:17:02.0/0000:20:00.0/0000:21:00.0/"
			"0000:22:00.0",
		  true, "PXB" },
		{ "/sys/devices/pci0000:15/0000:15:02.0/0000:30:00.0", true,
		  "PHB" },
		{ "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0", true,
		  "NODE" },
		{ "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0", false,
		  "SYS" },
		{ "/sys/devices/virtual/x", false, "SYS" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(
			mpib_pci_way(gpu, cases[i].hca, cases[i].same_node),
			cases[i].way);
		assert_string_equal(
			mpib_pci_way(cases[i].hca, gpu, cases[i].same_node),
			cases[i].way);
	}
}
