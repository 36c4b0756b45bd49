/* SPDX-License-Identifier: Apache-2.0 */
/* A network device's own statistics, by SIOCETHTOOL. */
#include "agent/ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"

/* The kernel writes as many as there are by then, whatever was asked for. */
#define ETHTOOL_MORE 256u
#define ETHTOOL_MOST 65536u

static int ethtool_call(int fd, const char *device, void *arg)
{
	struct ifreq request = { .ifr_data = arg };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	return ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}

/* How many counters there are. */
static int ethtool_count(int fd, const char *device, uint32_t *n)
{
	struct {
		struct ethtool_sset_info head;
		uint32_t n;
	} info = { .head = { .cmd = ETHTOOL_GSSET_INFO,
			     .sset_mask = 1ull << ETH_SS_STATS } };
	int rc = ethtool_call(fd, device, &info);

	*n = info.n;
	if (rc < 0)
		return rc;
	return info.head.sset_mask && info.n ? 0 : -EOPNOTSUPP;
}

/* Take the names and the values of the device's n statistics. */
static int ethtool_take(int fd, const char *device, uint32_t n,
			struct mpib_agent_ethtool *e)
{
	size_t most = (size_t)n + ETHTOOL_MORE;
	struct ethtool_gstrings *names =
		mpib_xcalloc(sizeof(*names) + most * sizeof(*e->name));
	struct ethtool_stats *stats =
		mpib_xcalloc(sizeof(*stats) + most * sizeof(*e->value));
	int rc;

	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_STATS;
	names->len = stats->n_stats = n;
	stats->cmd = ETHTOOL_GSTATS;
	rc = ethtool_call(fd, device, names);
	if (rc == 0)
		rc = ethtool_call(fd, device, stats);
	/* Another set than a moment ago: names and values may not fit. */
	if (rc == 0 && (names->len != n || stats->n_stats != n))
		rc = -EAGAIN;
	if (rc == 0) {
		e->n = n;
		e->name = mpib_xcalloc(n * sizeof(*e->name));
		e->value = mpib_xcalloc(n * sizeof(*e->value));
		memcpy(e->name, names->data, n * sizeof(*e->name));
		memcpy(e->value, stats->data, n * sizeof(*e->value));
	}
	free(names);
	free(stats);
	return rc;
}

int mpib_agent_ethtool_read(struct mpib_agent_ethtool *e, const char *device)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t n;
	int rc;

	*e = (struct mpib_agent_ethtool){ 0 };
	if (fd < 0)
		return -errno;
	rc = strlen(device) < IFNAMSIZ ? ethtool_count(fd, device, &n)
				       : -ENODEV;
	if (rc == 0 && n > ETHTOOL_MOST)
		rc = -EPROTO;
	if (rc == 0)
		rc = ethtool_take(fd, device, n, e);
	close(fd);
	return rc;
}

bool mpib_agent_ethtool_get(const struct mpib_agent_ethtool *e,
			    const char *counter, uint64_t *value)
{
	for (uint32_t i = 0; i < e->n; i++) {
		if (strncmp(e->name[i], counter, sizeof(*e->name)) == 0) {
			*value = e->value[i];
			return true;
		}
	}
	return false;
}

void mpib_agent_ethtool_free(struct mpib_agent_ethtool *e)
{
	free(e->name);
	free(e->value);
	*e = (struct mpib_agent_ethtool){ 0 };
}
