/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the machine: the run directory, and the places of HCAs and GPUs. */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <link.h>
#include <mpib/control.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "rails/gpus.h"

#define NO_GROUP                                                               \
	"add the group mpib and restart mpib-proxy, then add users to it; do " \
	"not add users to the group of root"
#define UNKNOWN ((gid_t)-1)

/* Return the remedy for a user who is not in the group gid. */
static const char *host_join(gid_t gid, char *buf, size_t len)
{
	const struct group *group = gid == UNKNOWN ? NULL : getgrgid(gid);
	const struct passwd *user = getpwuid(geteuid());

	if (gid == 0)
		return NO_GROUP;
	snprintf(buf, len, "adduser %s %s, then log in again",
		 user ? user->pw_name : "USER",
		 group ? group->gr_name : "mpib");
	return buf;
}

static void check_mode(struct mpib_doctor *d, const char *dir)
{
	struct group *group;
	char join[96];
	struct stat st;

	if (stat(dir, &st) < 0) {
		if (errno == EACCES)
			mpib_find(d, MPIB_FAIL, "run dir",
				  host_join(UNKNOWN, join, sizeof(join)),
				  "%s: %s", dir, strerror(EACCES));
		else
			mpib_find(d, MPIB_FAIL, "run dir",
				  "start mpib-proxy, which makes it, or name "
				  "another by -s or MPIB_RUN_DIR",
				  "%s: %s", dir, strerror(errno));
		return;
	}
	group = getgrgid(st.st_gid);
	if (st.st_mode & S_IWOTH)
		mpib_find(d, MPIB_FAIL, "run dir", "chmod o-w it",
			  "%s: any user can replace its sockets (mode %04o)",
			  dir, st.st_mode & 07777);
	else if (access(dir, X_OK) < 0)
		mpib_find(d, MPIB_FAIL, "run dir",
			  host_join(st.st_gid, join, sizeof(join)),
			  "%s: only uid %u and group %s may enter", dir,
			  st.st_uid, group ? group->gr_name : "?");
	else if (st.st_uid == 0 && st.st_gid == 0)
		mpib_find(d, MPIB_NOTE, "run dir", NO_GROUP,
			  "%s: only root can attach", dir);
	else
		mpib_find(d, MPIB_OK, "run dir", NULL,
			  "%s: mode %04o, uid %u, group %s", dir,
			  st.st_mode & 07777, st.st_uid,
			  group ? group->gr_name : "?");
}

void mpib_check_run_dir(struct mpib_doctor *d)
{
	char path[128], join[96], *slash;
	struct stat st;

	if (!mpib_dial_path(d->run_dir, MPIB_CONTROL_SOCK, path,
			    sizeof(path))) {
		mpib_find(d, MPIB_FAIL, "run dir",
			  "name it by -s or MPIB_RUN_DIR",
			  "no option or variable names the run directory");
		return;
	}
	slash = strrchr(path, '/');
	*slash = '\0';
	check_mode(d, path);
	*slash = '/';
	if (stat(path, &st) == 0 && access(path, W_OK) < 0)
		mpib_find(d, MPIB_FAIL, "run dir",
			  host_join(st.st_gid, join, sizeof(join)),
			  "%s: no process of uid %u can attach: %s", path,
			  geteuid(), strerror(errno));
}

static int node_of(const char *pci)
{
	char line[16];

	if (!mpib_read_line(line, sizeof(line), "%s/numa_node", pci))
		return -1;
	return (int)strtol(line, NULL, 10);
}

struct host_near {
	int node; /* of the HCA; -1: unknown */
	bool gpus; /* the machine has GPUs */
	bool same; /* at least one GPU is on the HCA's node */
};

static void host_look_at_gpu(void *arg, const char *dev)
{
	struct host_near *near = arg;
	int node = node_of(dev);

	near->gpus = true;
	near->same |= node < 0 || near->node < 0 || node == near->node;
}

static void check_node(struct mpib_doctor *d, const char *rail, const char *dev)
{
	struct host_near near = { 0 };
	char path[256];

	snprintf(path, sizeof(path), "%s/class/infiniband/%.48s/device",
		 d->sysfs, dev);
	near.node = node_of(path);
	mpib_gpus_each(d->sysfs, host_look_at_gpu, &near);
	if (near.gpus && !near.same)
		mpib_find(d, MPIB_WARN, "NUMA",
			  "use an HCA of the GPUs' node for this rail; see "
			  "mpibctl devices gpus",
			  "%s: %s is on node %d, but no GPU is", rail, dev,
			  near.node);
	else
		mpib_find(d, MPIB_OK, "NUMA", NULL, "%s: %s is on node %d%s",
			  rail, dev, near.node,
			  near.gpus ? ", as is a GPU" : ", there is no GPU");
}

void mpib_check_numa(struct mpib_doctor *d)
{
	bool hardware = false;
	const json_t *r;
	size_t i;

	json_array_foreach(d->rails, i, r)
	{
		const char *spec =
			json_string_value(json_object_get(r, "device"));
		char dev[49];

		if (!spec || sscanf(spec, "rdma:%48[^:]", dev) != 1)
			continue;
		hardware = true;
		if (mpib_doctor_new_port(d, i))
			check_node(d, mpib_json_str(r, "label"), dev);
	}
	if (d->rails && !hardware)
		mpib_find(d, MPIB_OK, "NUMA", NULL,
			  "software HCAs have no NUMA node");
}

/*
 * Checks of the proxy's share of CPU. A proxy that has to wait for a core does
 * all its work late. Nothing fails, but the CPU share limits the bandwidth.
 */

/* Return the number after `name` in the cpu.stat file at `path`; 0 if there is
 * none. */
static uint64_t stat_of(const char *path, const char *name)
{
	char line[128];
	size_t len = strlen(name);
	uint64_t n = 0;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, len) && line[len] == ' ')
			n = strtoull(line + len, NULL, 10);
	}
	if (f)
		fclose(f);
	return n;
}

/* Return the number of throttled periods of the proxy's cgroup or, if an
 * ancestor has more, of that ancestor. Set *us to their total duration. Cgroups
 * of version 2 have the line "0::/PATH". */
static uint64_t throttled_of(const struct mpib_doctor *d, uint64_t pid,
			     uint64_t *us)
{
	char line[512], dir[640], path[700], *end;
	uint64_t most = 0;
	size_t root;

	*us = 0;
	if (!mpib_read_line(line, sizeof(line), "%s/%" PRIu64 "/cgroup",
			    d->proc, pid) ||
	    strncmp(line, "0::", 3) != 0)
		return 0;
	root = (size_t)snprintf(dir, sizeof(dir), "%.40s/fs/cgroup", d->sysfs);
	snprintf(dir + root, sizeof(dir) - root, "%s", line + 3);
	while (strlen(dir) >= root && (end = strrchr(dir, '/'))) {
		uint64_t n;

		snprintf(path, sizeof(path), "%s/cpu.stat", dir);
		n = stat_of(path, "nr_throttled");
		if (n > most) {
			most = n;
			*us = stat_of(path, "throttled_usec");
		}
		*end = '\0';
	}
	return most;
}

/* Return the nice value, field 19 of /proc/PID/stat. Field 2, the name in
 * parentheses, may contain blanks. */
static int nice_of(const struct mpib_doctor *d, uint64_t pid)
{
	char line[512], *at;

	if (!mpib_read_line(line, sizeof(line), "%s/%" PRIu64 "/stat", d->proc,
			    pid))
		return 0;
	at = strrchr(line, ')');
	/* Field 3 is the first one after the name. */
	for (unsigned field = 2; at && field < 19; field++)
		at = strchr(at + 1, ' ');
	return at ? (int)strtol(at, NULL, 10) : 0;
}

void mpib_check_cpu(struct mpib_doctor *d)
{
	uint64_t pid = mpib_json_num(d->greeting, "pid"), throttled, us;
	int nice;

	if (!pid)
		return;
	nice = nice_of(d, pid);
	throttled = throttled_of(d, pid, &us);
	if (nice > 0)
		mpib_find(d, MPIB_WARN, "cpu",
			  "Nice=0 or less in mpib-proxy.service",
			  "the proxy runs at nice %d: busy processes take its "
			  "core",
			  nice);
	if (throttled)
		mpib_find(d, MPIB_WARN, "cpu",
			  "set no CPUQuota= for mpib-proxy.service and no "
			  "limits.cpu for its pod; reserve cores with "
			  "CPUWeight= and requests.cpu",
			  "its cgroup was throttled %" PRIu64
			  " times, for %.1f s in all",
			  throttled, (double)us / 1e6);
	if (nice <= 0 && !throttled)
		mpib_find(d, MPIB_OK, "cpu", NULL, "nice %d, never throttled",
			  nice);
}

/* Functions of all checks, to add a finding and to read an answer. */

void mpib_find(struct mpib_doctor *d, enum mpib_verdict verdict,
	       const char *check, const char *fix, const char *fmt, ...)
{
	static const char *const name[] = { "OK", "NOTE", "WARN", "FAIL" };
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->count[verdict]++;
	json_array_append_new(d->findings,
			      json_pack("{ss ss ss ss*}", "status",
					name[verdict], "check", check, "what",
					what, "fix", fix));
}

void mpib_find_why(struct mpib_doctor *d, enum mpib_verdict verdict,
		   const char *check, char *why, const char *other)
{
	char *remedy = strrchr(why, '('), *end = strrchr(why, ')');

	if (remedy > why && end && !end[1]) {
		remedy[-1] = *end = '\0';
		other = remedy + 1;
	}
	mpib_find(d, verdict, check, other, "%s", why);
}

bool mpib_doctor_new_port(const struct mpib_doctor *d, size_t i)
{
	const char *own = mpib_json_str(json_array_get(d->rails, i), "device");

	for (size_t j = 0; j < i; j++) {
		if (!strcmp(mpib_json_str(json_array_get(d->rails, j),
					  "device"),
			    own))
			return false;
	}
	return true;
}

/* Checks of this shell's environment, which a rank would inherit: NCCL's
 * plugin, and variables. */

/* Return whether NCCL uses the name as it is: a path, or lib*.so. */
static bool rank_is_file(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') ||
	       (!strncmp(name, "lib", 3) && len >= strlen(".so") &&
		!strcmp(name + len - strlen(".so"), ".so"));
}

/* Load one name of NCCL_NET_PLUGIN like NCCL: first the name itself, then
 * libnccl-net-NAME.so. The last name tried is written to `file`. */
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
	const char *const *name; /* the first member of the table in any ABI */

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
			  "export NCCL_NET=MPIB: then a rank without a proxy "
			  "fails and does not use another network",
			  "NCCL finds %s, but may use another network", file);
	else
		mpib_find(d, MPIB_OK, "plugin", NULL, "NCCL finds %s", file);
}

/* Return whether a launcher started this shell as a rank of a job. */
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

/* Report that no plugin is set. In an operator's shell that is not a fault. */
static void check_no_plugin(struct mpib_doctor *d)
{
	if (rank_is_rank())
		mpib_find(d, MPIB_WARN, "plugin",
			  "export NCCL_NET_PLUGIN=mpib NCCL_NET=MPIB on every "
			  "rank",
			  "NCCL_NET_PLUGIN is not set in this rank, so NCCL "
			  "uses libnccl-net.so or no plugin");
	else
		mpib_find(d, MPIB_OK, "plugin", NULL,
			  "this shell is not part of a rank; ranks need "
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
				  ? "give the plugin's path as the job sees it "
				    "(in the job's container, if it has one)"
				  : "export LD_LIBRARY_PATH=DIR, the plugin's "
				    "directory, or install the plugin in "
				    "/usr/local/lib and run ldconfig",
			  "NCCL_NET_PLUGIN=%s: %s", name, dlerror());
		return;
	}
	check_found(d, so, file);
	dlclose(so);
}

static void find_unknown(void *doctor, const char *name, const char *nearest)
{
	char fix[96] = "unset it; mpib.conf(5) lists the names";

	if (nearest)
		snprintf(fix, sizeof(fix), "did you mean %s?", nearest);
	mpib_find(doctor, MPIB_WARN, "environment", fix, "nothing reads %s",
		  name);
}

void mpib_check_environment(struct mpib_doctor *d)
{
	unsigned before = d->count[MPIB_WARN];

	mpib_environ_check(environ, find_unknown, d);
	if (d->count[MPIB_WARN] == before)
		mpib_find(d, MPIB_OK, "environment", NULL,
			  "every MPIB_ variable here is known");
}
