/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One control message with its file descriptors over a SOCK_SEQPACKET socket.
 * Descriptors arrive close-on-exec and belong to the receiver.
 */
#ifndef MPIB_IPC_MESSAGE_H
#define MPIB_IPC_MESSAGE_H

#include <mpib/control.h>
#include <stddef.h>

struct mpib_message {
	union {
		struct mpib_ctl_header h;
		char bytes[MPIB_CTL_MAX];
	};
	size_t len;
	int fd[MPIB_CTL_FDS_MAX];
	unsigned fds;
};

/*
 * Never blocks. 0, -EAGAIN when the socket is full, -errno. The descriptors
 * stay the caller's. h.len must be the message's length.
 */
int mpib_message_send(int sock, const struct mpib_ctl_header *h, const int *fd,
		      unsigned fds);

/*
 * Never blocks. 1: *m holds a message whose length is h.len, and its
 * descriptors; 0: the peer hung up; -EAGAIN: nothing waits; -EMFILE: *m holds
 * the message, but this process has no room for its descriptors, and none is
 * kept; -EPROTO: too long, too short, or too many descriptors (all of them
 * closed); -errno.
 */
int mpib_message_recv(int sock, struct mpib_message *m);

/* Close what is left in m. */
void mpib_message_close_fds(struct mpib_message *m);

#endif
