/* SPDX-License-Identifier: Apache-2.0 */
#include "liar.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* lower than the device's address, so the liar connects */
#define LIAR_ADDR "127.20.0.9"
#define LIAR_QPN 0x4711

int liar_dial(struct vt *t, uint32_t qpn)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	inet_pton(AF_INET, LIAR_ADDR, &sa.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	inet_pton(AF_INET, t->spec_a.name, &sa.sin_addr);
	/* Do not let TCP join the pieces that the test sends. */
	assert_int_equal(
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	sa.sin_port = htons((uint16_t)(24791 + (qpn >> 16)));
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static struct vt_end liar(struct vt *t)
{
	struct vt_end e = { .info = t->a.info };

	inet_pton(AF_INET, LIAR_ADDR, &e.info.gid.raw[12]);
	return e;
}

struct soft_hello liar_greeting(struct vt *t, struct ibv_qp *qp)
{
	struct vt_end e = liar(t);
	struct soft_hello h = { .status = SOFT_HELLO_ASK,
				.qpn = LIAR_QPN,
				.dest_qpn = qp->qp_num,
				.sq_psn = 5,
				.rq_psn = 6,
				.life = 7,
				.token = LIAR_TOKEN };

	memcpy(h.gid, e.info.gid.raw, 16);
	memcpy(h.dest_gid, t->a.info.gid.raw, 16);
	return h;
}

struct ibv_qp *liar_victim(struct vt *t)
{
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);
	struct vt_end e = liar(t);
	struct ibv_ece token = { .vendor_id = LIAR_TOKEN >> 32,
				 .options = (uint32_t)LIAR_TOKEN };

	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	assert_int_equal(t->v->set_ece(qp, &token), 0);
	assert_int_equal(vt_to_rtr(t, qp, &e, LIAR_QPN, 5, &vt_usual), 0);
	assert_int_equal(vt_to_rts(t, qp, 6, &vt_usual), 0);
	return qp;
}

int liar_greet(struct vt *t, int fd, const struct soft_hello *h)
{
	uint8_t buf[SOFT_HELLO_LEN];
	struct soft_hello back;
	size_t got = 0;

	soft_hello_encode(buf, h);
	assert_int_equal(send(fd, buf, sizeof(buf), MSG_NOSIGNAL), sizeof(buf));
	while (got < sizeof(buf)) {
		ssize_t n =
			recv(fd, buf + got, sizeof(buf) - got, MSG_DONTWAIT);

		vt_turn(t);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			print_error("n %zd errno %d\n", n, errno);
			return -1;
		}
		if (n > 0)
			got += (size_t)n;
	}
	assert_true(soft_hello_decode(buf, &back));
	return (int)back.status;
}
