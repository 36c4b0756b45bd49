/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the driver's counters of an RDMA port from sysfs. */
#include "view/hw.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The counters of retransmissions, as mlx5 and rxe name them. */
static const char *const retries[] = { "local_ack_timeout_err",
				       "packet_seq_err", "rnr_nak_retry_err",
				       "completer_retry_err", "rcvd_rnr_err" };

/* The number in the file, or NULL when it has none. */
static json_t *read_one(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[32], *end;
	long long n;
	ssize_t len;

	if (fd < 0)
		return NULL;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return NULL;
	text[len] = '\0';
	n = strtoll(text, &end, 10);
	return end > text ? json_integer(n) : NULL;
}

/* The port's own counters, of which each costs a question to the firmware: those that
 * tell of a cable or a switch that fails. */
static const char *const of_port[] = {
	"symbol_error",	   "link_downed",	 "link_error_recovery",
	"port_rcv_errors", "port_xmit_discards", "port_xmit_wait"
};

/* Add a file of the directory, if it has a number. */
static void add_one(json_t *all, int dir, const char *name)
{
	json_t *n = read_one(dir, name);

	if (n)
		json_object_set_new(all, name, n);
}

json_t *mpib_hw_counters(const char *root, const char *device, unsigned port)
{
	char path[PATH_MAX];
	struct dirent *entry;
	json_t *all;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path),
		 "%s/class/infiniband/%s/ports/%u/hw_counters", root, device,
		 port);
	dir = opendir(path);
	if (!dir)
		return json_null();
	all = json_object();
	while ((entry = readdir(dir)))
		add_one(all, dirfd(dir), entry->d_name);
	fd = openat(dirfd(dir), "../counters",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0;
	     fd >= 0 && i < sizeof(of_port) / sizeof(of_port[0]); i++)
		add_one(all, fd, of_port[i]);
	if (fd >= 0)
		close(fd);
	closedir(dir);
	json_object_del(all, "lifespan"); /* ms that the kernel caches */
	return all;
}

json_t *mpib_hw_retries(const json_t *counters)
{
	json_int_t sum = 0;

	if (!json_is_object(counters))
		return json_null();
	for (unsigned i = 0; i < sizeof(retries) / sizeof(retries[0]); i++) {
		json_int_t n = json_integer_value(
			json_object_get(counters, retries[i]));

		/* A counter beyond INT64_MAX was read as that. */
		if (__builtin_add_overflow(sum, n, &sum))
			sum = INT64_MAX;
	}
	return json_integer(sum);
}
