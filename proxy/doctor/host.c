/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the machine: the run directory, io_uring, where HCAs and GPUs are. */
#include <dirent.h>
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

/* The distance from NUMA node `node`, an HCA's, to its nearest GPU; -1 without
 * a GPU. */
static int nearest_gpu(const char *sysfs, int node)
{
	char all[256];
	DIR *dir;
	int best = -1;
	struct dirent *e;

	snprintf(all, sizeof(all), "%s/bus/pci/devices", sysfs);
	dir = opendir(all);
	while (dir && (e = readdir(dir))) {
		char path[512], vendor[16], class[16];
		int far;

		snprintf(path, sizeof(path), "%s/%.200s", all, e->d_name);
		if (!mpib_read_line(vendor, sizeof(vendor), "%s/vendor",
				    path) ||
		    !mpib_read_line(class, sizeof(class), "%s/class", path) ||
		    strcmp(vendor, "0x10de") != 0 ||
		    strncmp(class, "0x03", 4) != 0)
			continue;
		far = host_distance(sysfs, node, node_of(path));
		if (best < 0 || far < best)
			best = far;
	}
	if (dir)
		closedir(dir);
	return best;
}

static void check_distance(struct mpib_doctor *d, const char *rail,
			   const char *dev)
{
	char path[256];
	int node, far;

	snprintf(path, sizeof(path), "%s/class/infiniband/%.48s/device",
		 d->sysfs, dev);
	node = node_of(path);
	far = nearest_gpu(d->sysfs, node);
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
