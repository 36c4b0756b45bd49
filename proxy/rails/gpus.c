/* SPDX-License-Identifier: Apache-2.0 */
#include "rails/gpus.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define NVIDIA 0x10deu
#define AMD 0x1002u
#define CLASS_DISPLAY 0x03u
#define CLASS_ACCELERATOR 0x12u

/* Read a number such as "0x030200" from an attribute of a PCI device; 0: none. */
static unsigned long gpus_attr(const char *dev, const char *name)
{
	char text[32];

	mpib_read_line(text, sizeof(text), "%s/%s", dev, name);
	return strtoul(text, NULL, 16);
}

static bool is_gpu(const char *dev)
{
	unsigned long vendor = gpus_attr(dev, "vendor");
	unsigned long base = gpus_attr(dev, "class") >> 16;

	return (vendor == NVIDIA || vendor == AMD) &&
	       (base == CLASS_DISPLAY || base == CLASS_ACCELERATOR);
}

/* Return the part of `path` after "pci0000:15/"; NULL: not a PCI device's
 * path. */
static const char *behind_host_bridge(const char *path)
{
	while ((path = strstr(path, "/pci"))) {
		const char *end;

		path += strlen("/pci");
		end = path + strspn(path, "0123456789abcdef");
		if (end == path || *end != ':' ||
		    !isxdigit((unsigned char)end[1]))
			continue;
		end++;
		end += strspn(end, "0123456789abcdef");
		if (*end == '/')
			return end + 1;
	}
	return NULL;
}

/* Return the length of `path` up to the end of the root port's name. Return 0
 * if the device has no root port, as in many virtual machines. */
static size_t root_port(const char *path)
{
	const char *at = behind_host_bridge(path);
	const char *end = at ? strchr(at, '/') : NULL;

	return end ? (size_t)(end - path) : 0;
}

static void gpus_add(void *gpus, const char *dev)
{
	struct mpib_gpus *g = gpus;
	char *real = realpath(dev, NULL);
	size_t len = real ? root_port(real) : 0;

	if (len > 0 && len < sizeof(g->place[0]) && g->n < MPIB_GPUS_MAX) {
		memcpy(g->place[g->n], real, len);
		g->place[g->n++][len] = '\0';
	}
	free(real);
}

void mpib_gpus_each(const char *sysfs, void (*fn)(void *arg, const char *dev),
		    void *arg)
{
	char pattern[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/bus/pci/devices/*", sysfs);
	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (is_gpu(found.gl_pathv[i]))
			fn(arg, found.gl_pathv[i]);
	}
	globfree(&found);
}

void mpib_gpus_find(struct mpib_gpus *g, const char *sysfs)
{
	g->n = 0;
	mpib_gpus_each(sysfs, gpus_add, g);
}

bool mpib_gpus_near(const struct mpib_gpus *g, const char *pci_path)
{
	size_t len = root_port(pci_path);

	for (unsigned i = 0; len > 0 && i < g->n; i++) {
		if (strlen(g->place[i]) == len &&
		    !memcmp(g->place[i], pci_path, len))
			return true;
	}
	return false;
}

static unsigned steps(const char *path)
{
	unsigned n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

const char *mpib_pci_way(const char *a, const char *b, bool same_node)
{
	const char *below = behind_host_bridge(a);
	size_t same = 0, port = root_port(a);

	for (size_t i = 0; a[i] && a[i] == b[i]; i++) {
		if (a[i] == '/')
			same = i;
	}
	if (!below || same + 1 < (size_t)(below - a))
		return same_node ? "NODE" : "SYS";
	if (port == 0 || same < port)
		return "PHB";
	return steps(a + same) <= 2 && steps(b + same) <= 2 ? "PIX" : "PXB";
}
