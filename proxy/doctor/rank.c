/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what a rank that is started from this shell finds: NCCL's plugin, and
 * variables. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "doctor/doctor.h"

/* A path, or lib*.so: NCCL makes no other name of it. */
static bool rank_is_file(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') ||
	       (!strncmp(name, "lib", 3) && len >= strlen(".so") &&
		!strcmp(name + len - strlen(".so"), ".so"));
}

/* Load one name of NCCL_NET_PLUGIN the way NCCL does: as it is, then as
 * libnccl-net-NAME.so. file becomes the name tried last. */
static void *open_plugin(const char *name, char *file, size_t len)
{
	void *so;

	snprintf(file, len, "%s", name);
	so = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!so && !rank_is_file(name)) {
		snprintf(file, len, "libnccl-net-%s.so", name);
		so = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	}
	return so;
}

static bool rank_is_ours(void *so)
{
	const char *const *name; /* the first member of every version's table */

	name = dlsym(so, "ncclNetPlugin_v8");
	return name && *name && !strcmp(*name, "MPIB");
}

static void check_found(struct mpib_doctor *d, void *so, const char *file)
{
	struct link_map *map;
	const char *net = getenv("NCCL_NET");

	if (!rank_is_ours(so)) {
		mpib_find(d, MPIB_FAIL, "plugin",
			  "export NCCL_NET_PLUGIN=mpib, and see which "
			  "libnccl-net-mpib.so comes first in LD_LIBRARY_PATH",
			  "%s is a plugin, but not mpib's", file);
		return;
	}
	if (dlinfo(so, RTLD_DI_LINKMAP, &map) == 0)
		file = map->l_name;
	if (!net || strcmp(net, "MPIB") != 0)
		mpib_find(d, MPIB_WARN, "plugin",
			  "export NCCL_NET=MPIB: then a rank whose proxy is "
			  "down fails, where it would take another network",
			  "NCCL finds %s, but may use another network", file);
	else
		mpib_find(d, MPIB_OK, "plugin", NULL, "NCCL finds %s", file);
}

/* Whether a launcher started this shell as one of a job's ranks. */
static bool rank_is_rank(void)
{
	static const char *const marks[] = { "SLURM_PROCID", "PMI_RANK",
					     "PMIX_RANK", "LOCAL_RANK",
					     "OMPI_COMM_WORLD_RANK" };

	for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (getenv(marks[i]))
			return true;
	}
	return false;
}

/* An operator's shell has no need of what a rank has to export. */
static void check_no_plugin(struct mpib_doctor *d)
{
	if (rank_is_rank())
		mpib_find(d, MPIB_WARN, "plugin",
			  "export NCCL_NET_PLUGIN=mpib NCCL_NET=MPIB on every "
			  "rank",
			  "NCCL_NET_PLUGIN is not set in this rank, so NCCL "
			  "takes libnccl-net.so or none");
	else
		mpib_find(d, MPIB_OK, "plugin", NULL,
			  "this is no rank's shell: a rank exports "
			  "NCCL_NET_PLUGIN=mpib NCCL_NET=MPIB");
}

void mpib_check_plugin(struct mpib_doctor *d)
{
	const char *list = getenv("NCCL_NET_PLUGIN");
	char name[256] = "", file[300];
	void *so = NULL;

	if (!list || !*list) {
		check_no_plugin(d);
		return;
	}
	for (; !so && *list; list += strspn(list, ",")) {
		size_t len = strcspn(list, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, list);
		so = open_plugin(name, file, sizeof(file));
		list += len;
	}
	if (!so) {
		mpib_find(d, MPIB_FAIL, "plugin",
			  strchr(name, '/')
				  ? "give the path that it has here, in the "
				    "job's container if there is one"
				  : "export LD_LIBRARY_PATH=DIR, where it is, "
				    "or run ldconfig once it is in "
				    "/usr/local/lib",
			  "NCCL_NET_PLUGIN=%s: %s", name, dlerror());
		return;
	}
	check_found(d, so, file);
	dlclose(so);
}

static void find_unknown(void *doctor, const char *name, const char *nearest)
{
	char fix[96] = "unset it; mpib.conf(5) has the names";

	if (nearest)
		snprintf(fix, sizeof(fix), "perhaps %s is meant", nearest);
	mpib_find(doctor, MPIB_WARN, "environment", fix, "nothing reads %s",
		  name);
}

void mpib_check_environment(struct mpib_doctor *d)
{
	unsigned before = d->count[MPIB_WARN];

	mpib_environ_check(environ, find_unknown, d);
	if (d->count[MPIB_WARN] == before)
		mpib_find(d, MPIB_OK, "environment", NULL,
			  "every MPIB_ variable here has a meaning");
}
