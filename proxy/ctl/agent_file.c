/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the agent's status. */
#include "ctl/agent_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REFRESHED_S 10
#define BYTES_MAX (1 << 20)

/* Anybody can make a directory such as /tmp/mpib, and a file in it. */
static int file_trusted(int fd, const char *user, const char *path, char *why,
			size_t len)
{
	const struct passwd *pw = getpwnam(user);
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > BYTES_MAX) {
		snprintf(why, len,
			 "%s: it is no status (a file of at most 1 MiB; see "
			 "agent.dir)",
			 path);
		return -EPROTO;
	}
	if (st.st_uid == 0 || st.st_uid == geteuid() ||
	    (pw && st.st_uid == pw->pw_uid))
		return 0;
	snprintf(why, len,
		 "%s: it belongs to user %u, not to root, %.32s or you (see "
		 "agent.dir and agent.user)",
		 path, (unsigned)st.st_uid, user);
	return -EPERM;
}

static int file_fresh(const json_t *data, const char *path, char *why,
		      size_t len)
{
	json_int_t told = json_integer_value(json_object_get(data, "told"));
	json_int_t now = time(NULL);

	if (told >= now - REFRESHED_S && told <= now + REFRESHED_S)
		return 0;
	if (told > now)
		snprintf(why, len,
			 "%s: it is of a time to come (set the clock, restart "
			 "mpib-agent)",
			 path);
	else
		snprintf(why, len,
			 "%s: the agent that wrote it is gone or stands still "
			 "(start mpib-agent)",
			 path);
	return -ESTALE;
}

int mpib_agent_file_read(const char *dir, const char *user, json_t **data,
			 char *why, size_t len)
{
	char path[160];
	json_error_t error;
	int fd, rc;

	*data = NULL;
	snprintf(path, sizeof(path), "%.128s/" MPIB_AGENT_STATUS, dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		rc = -errno;
		snprintf(why, len, "%s: %s (%s)", path, strerror(-rc),
			 rc == -ENOENT ? "start mpib-agent, or see agent.dir"
				       : "be of the group of the proxy");
		return rc;
	}
	rc = file_trusted(fd, user, path, why, len);
	if (rc == 0)
		*data = json_loadfd(fd, 0, &error);
	close(fd);
	if (rc < 0)
		return rc;
	if (!*data) {
		snprintf(why, len,
			 "%s: it is no status (use programs of one version)",
			 path);
		return -EPROTO;
	}
	rc = file_fresh(*data, path, why, len);
	if (rc < 0) {
		json_decref(*data);
		*data = NULL;
	}
	return rc;
}
