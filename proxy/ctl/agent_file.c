/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the agent's status. */
#include "ctl/agent_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REFRESHED_S 10

int mpib_agent_file_read(const char *dir, json_t **data, char *why, size_t len)
{
	char path[160];
	json_int_t told;
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
	*data = json_loadfd(fd, 0, &error);
	close(fd);
	if (!*data) {
		snprintf(why, len,
			 "%s: it is no status (use programs of one version)",
			 path);
		return -EPROTO;
	}
	told = json_integer_value(json_object_get(*data, "told"));
	if ((json_int_t)time(NULL) - told <= REFRESHED_S)
		return 0;
	snprintf(why, len,
		 "%s: the agent that wrote it is gone or stands still (start "
		 "mpib-agent)",
		 path);
	json_decref(*data);
	*data = NULL;
	return -ESTALE;
}
