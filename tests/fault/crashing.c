/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded. This simulates a bug: the proxy crashes while it serves a
 * request of type 0xdead.
 */
#include <dlfcn.h>
#include <mpib/control.h>
#include <stddef.h>
#include <sys/socket.h>

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t (*next)(int, struct msghdr *, int) =
		(__typeof__(next))dlsym(RTLD_NEXT, "recvmsg");
	ssize_t n = next(fd, msg, flags);
	static int *volatile nowhere;
	const struct mpib_ctl_header *h =
		msg->msg_iovlen ? msg->msg_iov[0].iov_base : NULL;

	if (n >= (ssize_t)sizeof(*h) && h->type == 0xdead)
		*nowhere = 1;
	return n;
}
