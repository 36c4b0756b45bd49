/* SPDX-License-Identifier: Apache-2.0 */
/* Which user of this machine is at the other end of a connection by loopback.
 * Private to web/. */
#ifndef MPIB_WEB_CALLER_H
#define MPIB_WEB_CALLER_H

#include <netinet/in.h>
#include <sys/types.h>

/*
 * A socket to ask the kernel by, or -errno. Asked for the listening socket at
 * that address it must find it: a kernel that cannot be asked finds none.
 */
int mpib_caller_open(const struct sockaddr_in *listener);
/*
 * The user whose socket is connected from the one address to the other: 0, or
 * -ENOENT when there is none (any more, or after a translation of addresses), or
 * another error. Does not wait: the kernel answers within the call, by a look
 * into its table of connections.
 */
int mpib_caller_uid(int diag, const struct sockaddr_in *from,
		    const struct sockaddr_in *to, uid_t *uid);

#endif
