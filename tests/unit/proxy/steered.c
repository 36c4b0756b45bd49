/* SPDX-License-Identifier: Apache-2.0 */
#include "steered.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

struct mpib_agent agent;
struct mpib_agent_policy policy;
char why[MPIB_AGENT_WHY];

int steered_begin(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	assert_int_equal(mpib_agent_start(&agent, scratch, "nobody", why), 0);
	memset(&policy, 0, sizeof(policy));
	policy.agent = &agent;
	mpib_agent_conf_init(&policy.conf);
	policy.now =
		(struct mpib_agent_now){ .s = (uint64_t)time(NULL), .ns = 1 };
	return 0;
}

int steered_end(void **state)
{
	mpib_agent_stop(&agent);
	/* fails if the directory is not empty */
	assert_int_equal(rmdir(scratch), 0);
	return 0;
}

struct mpib_agent_slot *steered_conn(unsigned slot, const char *peer)
{
	struct mpib_agent_slot *s = &agent.slot[slot];

	*s = (struct mpib_agent_slot){ .users = 1 };
	inet_pton(AF_INET, peer, &s->dst_ip);
	return s;
}

int steered_dial(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_AGENT_SOCK,
		 scratch);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}
