/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network device counts beyond sysfs, as ethtool -S has it: an HCA's ECN
 * marks, pauses of its priorities, symbol errors of its PHY. Asked by ioctl()
 * on a socket of any family, so that the agent needs no other than AF_UNIX; but
 * the device has to be of the agent's network namespace.
 */
#ifndef MPIB_AGENT_ETHTOOL_H
#define MPIB_AGENT_ETHTOOL_H

#include <stdbool.h>
#include <stdint.h>

struct mpib_agent_ethtool {
	uint32_t n;
	char (*name)[32];
	uint64_t *value;
};

/* Read all that the device counts. 0, -ENODEV: there is none of that name here;
 * -EOPNOTSUPP: it counts nothing; -errno. e is empty then. */
int mpib_agent_ethtool_read(struct mpib_agent_ethtool *e, const char *device);
/* False: it has no counter of that name. */
bool mpib_agent_ethtool_get(const struct mpib_agent_ethtool *e,
			    const char *counter, uint64_t *value);
void mpib_agent_ethtool_free(struct mpib_agent_ethtool *e);

#endif
