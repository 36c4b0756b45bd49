/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the machine: the run directory, io_uring, where HCAs and GPUs are. */
#include <errno.h>
#include <grp.h>
#include <mpib/control.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/line.h"
#include "doctor/doctor.h"
#include "rails/gpus.h"

/* "adduser USER GROUP", with the names that are meant here. */
static const char *host_join(gid_t gid, char *buf, size_t len)
{
	const struct group *group = getgrgid(gid);
	const struct passwd *user = getpwuid(geteuid());

	snprintf(buf, len, "adduser %s %s, then log in again",
		 user ? user->pw_name : "USER",
		 group && gid ? group->gr_name : "mpib");
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
				  host_join(0, join, sizeof(join)), "%s: %s",
				  dir, strerror(EACCES));
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
			  "%s: anybody can replace its sockets (mode %04o)",
			  dir, st.st_mode & 07777);
	else if (access(dir, X_OK) < 0)
		mpib_find(d, MPIB_FAIL, "run dir",
			  st.st_gid ? host_join(st.st_gid, join, sizeof(join))
				    : "give mpib-proxy the group mpib, whose "
				      "users may enter: nobody is to be in "
				      "root's",
			  "%s: only uid %u and group %s may enter", dir,
			  st.st_uid, group ? group->gr_name : "?");
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
			  "nothing says where it is");
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

/* Only the software HCA uses io_uring; without it, it uses epoll. Called when the
 * rails are known. */
void mpib_check_io_uring(struct mpib_doctor *d)
{
	static const char fix[] =
		"sysctl kernel.io_uring_disabled=0, and allow "
		"it in the container's seccomp profile";

	/* Where io_uring is allowed the call fails too, by its NULL argument,
	 * but with another errno. */
	syscall(__NR_io_uring_setup, 1, NULL);
	if (errno != EPERM && errno != ENOSYS)
		mpib_find(d, MPIB_OK, "io_uring", NULL, "allowed here");
	else if (!mpib_doctor_has_rail(d, "soft:"))
		mpib_find(d, MPIB_OK, "io_uring", NULL,
			  "forbidden here, and no rail uses it");
	else
		mpib_find(
			d, MPIB_WARN, "io_uring", fix,
			"forbidden here (%s); a software HCA takes its slower "
			"epoll engine",
			strerror(errno));
}

static int node_of(const char *pci)
{
	char line[16];

	if (!mpib_read_line(line, sizeof(line), "%s/numa_node", pci))
		return -1;
	return (int)strtol(line, NULL, 10);
}

/* The distance of two NUMA nodes in the kernel's units: 10 is the same node,
 * which is also assumed where nothing is known. */
static int host_distance(const char *sysfs, int from, int to)
{
	char line[1024], *at = line;
	long n = 10;

	if (from < 0 || to < 0 || from == to ||
	    !mpib_read_line(line, sizeof(line),
			    "%s/devices/system/node/node%d/distance", sysfs,
			    from))
		return 10;
	for (int i = 0; i <= to; i++)
		n = strtol(at, &at, 10);
	return (int)n;
}

struct host_nearest {
	const char *sysfs;
	int node; /* an HCA's */
	int best; /* the distance of the nearest GPU; -1: there is none */
};

static void host_look_at_gpu(void *arg, const char *dev)
{
	struct host_nearest *n = arg;
	int far = host_distance(n->sysfs, n->node, node_of(dev));

	if (n->best < 0 || far < n->best)
		n->best = far;
}

static void check_distance(struct mpib_doctor *d, const char *rail,
			   const char *dev)
{
	struct host_nearest nearest = { .sysfs = d->sysfs, .best = -1 };
	char path[256];
	int node, far;

	snprintf(path, sizeof(path), "%s/class/infiniband/%.48s/device",
		 d->sysfs, dev);
	node = node_of(path);
	nearest.node = node;
	mpib_gpus_each(d->sysfs, host_look_at_gpu, &nearest);
	far = nearest.best;
	if (far > 10)
		mpib_find(d, MPIB_WARN, "NUMA",
			  "use an HCA of the GPUs' node for this rail",
			  "%s: %s is on node %d, the nearest GPU at distance "
			  "%d",
			  rail, dev, node, far);
	else
		mpib_find(d, MPIB_OK, "NUMA", NULL, "%s: %s is on node %d%s",
			  rail, dev, node,
			  far < 0 ? ", there is no GPU" : ", as a GPU is");
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
			check_distance(d, mpib_doctor_label(r), dev);
	}
	if (d->rails && !hardware)
		mpib_find(d, MPIB_OK, "NUMA", NULL,
			  "no rail is a device with a place");
}
