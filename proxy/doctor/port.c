/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of an RDMA port and its hardware: speed, width, link layer, firmware,
 * PCI link, IOMMU and the switches above it. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "doctor/doctor.h"

/* Check the PCI link: a link below the device's maximum limits the port. */
static void check_pci(struct mpib_doctor *d, const char *check, const char *dev)
{
	static const char *const what[] = { "speed", "width" };
	char now[64], max[64];

	for (unsigned i = 0; i < 2; i++) {
		if (!mpib_read_line(now, sizeof(now),
				    "%s/class/infiniband/%s/device/"
				    "current_link_%s",
				    d->sysfs, dev, what[i]) ||
		    !mpib_read_line(max, sizeof(max),
				    "%s/class/infiniband/%s/device/"
				    "max_link_%s",
				    d->sysfs, dev, what[i]) ||
		    !strcmp(now, max))
			continue;
		mpib_find(d, MPIB_WARN, check,
			  "reseat the card or use a slot with more lanes",
			  "PCI link of %s has %s %s of %s", dev, what[i], now,
			  max);
	}
}

/* Check the rate, such as "100 Gb/sec (4X EDR)". A port that came up with one
 * physical lane (1X) of its four has a bad cable or connector. */
static void check_rate(struct mpib_doctor *d, const char *check,
		       const char *dev, unsigned port, uint64_t expected_mbps)
{
	char rate[64], layer[32] = "";
	double gbps;

	if (!mpib_read_line(rate, sizeof(rate),
			    "%s/class/infiniband/%s/ports/%u/rate", d->sysfs,
			    dev, port))
		return;
	mpib_read_line(layer, sizeof(layer),
		       "%s/class/infiniband/%s/ports/%u/link_layer", d->sysfs,
		       dev, port);
	gbps = strtod(rate, NULL);
	if (strstr(rate, "(1X "))
		mpib_find(d, MPIB_WARN, check,
			  "check the cable and its connectors",
			  "%s came up with one lane: %s", dev, rate);
	else if (gbps * 1000 < (double)expected_mbps)
		mpib_find(d, MPIB_WARN, check,
			  "check cable, optics and the switch's port, or set "
			  "[hca] speed",
			  "PORT AT %g of %g Gb/s: %s %s", gbps,
			  (double)expected_mbps / 1000, dev, rate);
	else
		mpib_find(d, MPIB_OK, check, NULL, "%s runs at %s%s%s", dev,
			  rate, *layer ? ", " : "", layer);
}

/* Check the IOMMU: if it translates an HCA's DMA, each DMA costs lookups. The
 * domain "identity" does not translate. */
static void check_iommu(struct mpib_doctor *d, const char *check,
			const char *dev)
{
	char type[32];

	if (mpib_read_line(type, sizeof(type),
			   "%s/class/infiniband/%s/device/iommu_group/type",
			   d->sysfs, dev) &&
	    !strncmp(type, "DMA", 3))
		mpib_find(d, MPIB_NOTE, check, "boot the kernel with iommu=pt",
			  "the IOMMU translates each DMA of %s (%s)", dev,
			  type);
}

#define PCI_EXT_CAPS 0x100
#define PCI_ACS 0x0d
#define ACS_CONTROL 6
#define ACS_REDIRECT 0x0c /* redirect peer-to-peer requests, completions */

static uint32_t pci_word(const uint8_t *config, unsigned at, unsigned bytes)
{
	uint32_t word = 0;

	for (unsigned i = bytes; i-- > 0;)
		word = word << 8 | config[at + i];
	return word;
}

/* Return whether a bridge redirects traffic between two devices below it to the
 * root complex. `file` is its configuration space. If the capability ACS cannot
 * be read, return false: only root may read more than the first 64 bytes of the
 * file. */
static bool acs_redirects(const char *file)
{
	uint8_t config[4096];
	FILE *f = fopen(file, "re");
	size_t n = f ? fread(config, 1, sizeof(config), f) : 0;
	unsigned at = PCI_EXT_CAPS;

	if (f)
		fclose(f);
	/* Capabilities are a linked list; a broken list may have a cycle. */
	for (unsigned i = 0; i < 64 && at >= PCI_EXT_CAPS && at + 8 <= n; i++) {
		uint32_t head = pci_word(config, at, 4);

		if ((head & 0xffff) == PCI_ACS)
			return pci_word(config, at + ACS_CONTROL, 2) &
			       ACS_REDIRECT;
		at = head >> 20;
	}
	return false;
}

/* Check the bridges above the device: the directories above its directory. */
static void check_acs(struct mpib_doctor *d, const char *check, const char *dev)
{
	char path[PATH_MAX], file[PATH_MAX + 8], *slash;

	snprintf(file, sizeof(file), "%s/class/infiniband/%s/device", d->sysfs,
		 dev);
	if (!realpath(file, path))
		return;
	while ((slash = strrchr(path, '/')) && slash > path) {
		*slash = '\0';
		snprintf(file, sizeof(file), "%s/config", path);
		if (!acs_redirects(file))
			continue;
		mpib_find(d, MPIB_WARN, check,
			  "turn ACS off: in the firmware's settings, or by "
			  "setpci -s BRIDGE ECAP_ACS+6.w=0",
			  "ACS of bridge %s sends traffic between %s and GPUs "
			  "through the root complex",
			  strrchr(path, '/') + 1, dev);
		return;
	}
}

void mpib_check_port(struct mpib_doctor *d, const json_t *rail)
{
	char check[64], dev[64], fw[64];
	const char *spec = mpib_json_str(rail, "device"), *colon;
	unsigned port = 1;

	snprintf(check, sizeof(check), "rail %.48s",
		 mpib_json_str(rail, "label"));
	if (sscanf(spec, "rdma:%63[^:]", dev) != 1)
		return;
	colon = strchr(spec + strlen("rdma:"), ':');
	if (colon)
		port = (unsigned)strtoul(colon + 1, NULL, 10);
	check_rate(d, check, dev, port, mpib_json_num(rail, "expected_mbps"));
	check_pci(d, check, dev);
	check_iommu(d, check, dev);
	check_acs(d, check, dev);
	if (mpib_read_line(fw, sizeof(fw), "%s/class/infiniband/%s/fw_ver",
			   d->sysfs, dev))
		mpib_find(d, MPIB_OK, check, NULL, "%s has firmware %s", dev,
			  fw);
	if (mpib_json_num(rail, "mtu") < 4096)
		mpib_find(d, MPIB_WARN, check,
			  "raise the MTU of its network interface to 4200 or "
			  "more",
			  "%s has an RDMA MTU of %" PRIu64 ", not 4096", dev,
			  mpib_json_num(rail, "mtu"));
}
