/* SPDX-License-Identifier: Apache-2.0 */
/* By sock_diag(7), as ss(8) does: TCP itself does not say who connects. */
#include "web/caller.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 req;
};

static int caller_read(struct nlmsghdr *h, size_t len, uid_t *uid)
{
	/* NLMSG_DATA() would cast away the const. */
	const void *data = (const char *)h + NLMSG_HDRLEN;
	const struct inet_diag_msg *m = data;
	const struct nlmsgerr *e = data;

	if (!NLMSG_OK(h, len))
		return -EPROTO;
	if (h->nlmsg_type == NLMSG_ERROR)
		return h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)) || !e->error
			       ? -EPROTO
			       : e->error;
	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EPROTO;
	if (m->idiag_state == TCP_LISTEN)
		return -ENOTCONN;
	/* A socket that its process has closed is nobody's, and says uid 0. */
	if (m->idiag_inode == 0)
		return -ENOENT;
	*uid = m->idiag_uid;
	return 0;
}

int mpib_caller_uid(int diag, const struct sockaddr_in *from,
		    const struct sockaddr_in *to, uid_t *uid)
{
	struct question q = {
		.head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.req = { .sdiag_family = AF_INET,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX,
			 .id = { .idiag_sport = from->sin_port,
				 .idiag_dport = to->sin_port,
				 .idiag_src = { from->sin_addr.s_addr },
				 .idiag_dst = { to->sin_addr.s_addr },
				 .idiag_cookie = { INET_DIAG_NOCOOKIE,
						   INET_DIAG_NOCOOKIE } } },
	};
	_Alignas(struct nlmsghdr) char answer[1024];
	ssize_t n;

	if (diag < 0)
		return -EBADF;
	if (send(diag, &q, sizeof(q), 0) < 0)
		return -errno;
	n = recv(diag, answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	return caller_read((struct nlmsghdr *)answer, (size_t)n, uid);
}

int mpib_caller_open(const struct sockaddr_in *listener)
{
	const struct sockaddr_in nobody = { .sin_family = AF_INET };
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_SOCK_DIAG);
	uid_t uid;
	int rc;

	if (fd < 0)
		return -errno;
	rc = connect(fd, (struct sockaddr *)&kernel, sizeof(kernel)) < 0
		     ? -errno
		     : mpib_caller_uid(fd, listener, &nobody, &uid);
	if (rc == -ENOTCONN)
		return fd;
	close(fd);
	return rc < 0 ? rc : -EPROTO;
}
