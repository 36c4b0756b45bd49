/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send or receive a control message, with file descriptors, over a
 * SOCK_SEQPACKET socket. The client library and mpib-proxy both use this code.
 * Received descriptors are close-on-exec. The caller that receives a message
 * owns its descriptors.
 */
#ifndef MPIB_IPC_MESSAGE_H
#define MPIB_IPC_MESSAGE_H

#include <mpib/control.h>
#include <stddef.h>

#include "base/closer.h"

struct mpib_message {
	union {
		struct mpib_ctl_header h;
		char bytes[MPIB_CTL_MAX];
	};
	size_t len;
	int fd[MPIB_RIGHTS_MAX]; /* all received descriptors */
	unsigned fds; /* number of received descriptors */
};

/*
 * Send the message that begins with `h` and is h->len bytes long, together with
 * the first `fds` descriptors of `fd`. The caller still owns the descriptors.
 * Never blocks. Returns 0, -EAGAIN if the socket is full, or another -errno.
 */
int mpib_message_send(int sock, const struct mpib_ctl_header *h, const int *fd,
		      unsigned fds);

/*
 * Receive a message. Never blocks. Returns:
 *   1        *m holds the message and its descriptors
 *   0        the other end hung up
 *   -EAGAIN  no message has arrived
 *   -EMFILE  *m holds the message, but this process could not receive all of
 *            its descriptors; the received ones are closed
 *   -EPROTO  the message is too long or too short, or has too many descriptors;
 *            all of them are closed
 *   -errno   recvmsg() failed
 */
int mpib_message_recv(int sock, struct mpib_message *m);
/* Like mpib_message_recv(), for callers that must not block in close(): never
 * closes a descriptor. With every result, *m holds the received
 * descriptors. */
int mpib_message_take(int sock, struct mpib_message *m);

/* Close the m->fds descriptors in m and set m->fds to 0. */
void mpib_message_close_fds(struct mpib_message *m);

#endif
