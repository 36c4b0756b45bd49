/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One control message with its file descriptors over a SOCK_SEQPACKET socket.
 * Used by both ends, the client library and mpib-proxy. Received descriptors
 * are close-on-exec, and the caller of mpib_message_recv() owns them.
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
	unsigned fds;
};

/*
 * Never blocks. Returns 0, -EAGAIN if the socket is full, or another -errno.
 * The caller still owns the descriptors. h->len must be the message's length.
 */
int mpib_message_send(int sock, const struct mpib_ctl_header *h, const int *fd,
		      unsigned fds);

/*
 * Never blocks. 1: *m holds a message of length h.len with its descriptors; 0:
 * the other end hung up; -EAGAIN: no message waits; -EMFILE: *m holds the
 * message, but this process has no room for all its descriptors (those received
 * are closed); -EPROTO: the message is too long or too short, or has too many
 * descriptors (all are closed); -errno.
 */
int mpib_message_recv(int sock, struct mpib_message *m);
/* Like mpib_message_recv(), but close no descriptor: with every result, *m has
 * the received descriptors. For callers that must not block in close(). */
int mpib_message_take(int sock, struct mpib_message *m);

/* Close the m->fds descriptors in m and set m->fds to 0. */
void mpib_message_close_fds(struct mpib_message *m);

#endif
