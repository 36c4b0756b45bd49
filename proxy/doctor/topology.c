/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl devices gpus: the distances from this machine's GPUs to the rails'
 * HCAs. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ctl/commands.h"
#include "ctl/table.h"
#include "rails/gpus.h"

struct topology {
	json_t *rows; /* for each GPU: "gpu", "numa", and a path to each HCA */
	const json_t *rails;
};

/* Find the real path and the NUMA node of the device at `path`. Return false if
 * there is no such device. */
static bool device_place(const char *path, char place[PATH_MAX], int *node)
{
	char line[16] = "-1";

	mpib_read_line(line, sizeof(line), "%s/numa_node", path);
	*node = (int)strtol(line, NULL, 10);
	return realpath(path, place);
}

static void add_way(json_t *row, const char *gpu, int gpu_node,
		    const json_t *rail)
{
	char dev[64], path[128], place[PATH_MAX];
	int node;

	if (sscanf(mpib_json_str(rail, "device"), "rdma:%63[^:]", dev) != 1)
		return;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", dev);
	if (device_place(path, place, &node))
		json_object_set_new(row, dev,
				    json_string(mpib_pci_way(
					    gpu, place, node == gpu_node)));
}

static void add_gpu(void *arg, const char *dev)
{
	struct topology *t = arg;
	const char *name = strrchr(dev, '/');
	char place[PATH_MAX];
	const json_t *rail;
	json_t *row;
	size_t i;
	int node;

	if (!name || !device_place(dev, place, &node))
		return;
	row = json_pack("{ss si}", "gpu", name + 1, "numa", node);
	json_array_foreach(t->rails, i, rail) add_way(row, place, node, rail);
	json_array_append_new(t->rows, row);
}

/* Print a column for each member of the first row: all rows have the same
 * members. */
static void print_matrix(const json_t *rows)
{
	struct mpib_column columns[MPIB_TABLE_COLUMNS + 1] = { 0 };
	char text[MPIB_TABLE_COLUMNS][72];
	unsigned n = 0;
	const char *key;
	json_t *value;

	json_object_foreach(json_array_get(rows, 0), key, value)
	{
		if (n == MPIB_TABLE_COLUMNS)
			break;
		snprintf(text[n], sizeof(text[n]), "{%s}", key);
		columns[n] = (struct mpib_column){ key, text[n], 0 };
		n++;
	}
	if (n == 0)
		printf("(no GPU)\n");
	else
		mpib_rows_print(columns, rows, NULL, NULL, mpib_ctl_width(),
				stdout);
}

int mpib_ctl_topology(const struct mpib_ctl_call *call)
{
	struct topology t = { .rows = json_array() };
	json_t *rails;
	int rc = mpib_ctl_ask(call, &rails);

	t.rails = rails;
	if (rc == MPIB_EXIT_OK) {
		mpib_gpus_each("/sys", add_gpu, &t);
		if (call->json || call->fields)
			rc = mpib_ctl_print(call, t.rows);
		else
			print_matrix(t.rows);
	}
	json_decref(t.rows);
	json_decref(rails);
	return mpib_ctl_finish(rc);
}
