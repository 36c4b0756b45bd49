/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send or receive a control message, with file descriptors, over a
 * SOCK_SEQPACKET socket. The client library and mpib-proxy both use this code.
 * Received descriptors are close-on-exec, and belong to the caller.
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
	unsigned fds; /* number of descriptors in `fd` */
};

/*
 * Send the message that begins with the header `h` and is h->len bytes long,
 * together with the first `fds` descriptors of the array `fd`. The caller still
 * owns the descriptors. Never blocks. Returns 0, -EAGAIN if the socket is full,
 * or another -errno.
 */
int mpib_message_send(int sock, const struct mpib_ctl_header *h, const int *fd,
		      unsigned fds);

/*
 * Receive a message. Never blocks.
 *
 * Returns 1 if `*m` holds the message and its descriptors, 0 if the other end
 * hung up, or -EAGAIN if no message has arrived. Returns -EMFILE if this
 * process could not receive all descriptors of the message. In this case `*m`
 * holds the message, and the descriptors that were received are closed. Returns
 * -EPROTO if the message is too long or too short, or has too many descriptors.
 * In this case all its descriptors are closed. Other errors are those of
 * recvmsg().
 */
int mpib_message_recv(int sock, struct mpib_message *m);
/* Like mpib_message_recv(), but never closes a descriptor, for callers that
 * must not block in close(). The received descriptors are always in `*m`, even
 * after an error. */
int mpib_message_take(int sock, struct mpib_message *m);

/* Close the m->fds descriptors in m and set m->fds to 0. */
void mpib_message_close_fds(struct mpib_message *m);

#endif
